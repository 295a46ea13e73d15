#include "training/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "spillway/core/error.h"

namespace spillway::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TextDatasetTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const auto path = std::filesystem::path(testing::TempDir()) /
                      (std::string("spillway_") + test->name() + "_" + std::to_string(::getpid()));
    std::ofstream(path, std::ios::binary) << text;
    files_.push_back(path);
    return path;
  }
  ~TextDatasetTest() override {
    for (const auto& path : files_) std::filesystem::remove(path);
  }

 private:
  std::vector<std::filesystem::path> files_;
};

std::string two_digits(int value) {
  return {static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
}

std::vector<std::int64_t> tokens_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(dataset.sequence_length()));
  std::vector<std::int64_t> labels(tokens.size());
  dataset.sample(index, tokens, labels);
  return tokens;
}

TEST_F(TextDatasetTest, LabelsAreTheBytesOneFurther) {
  const TextDataset dataset(write("abcdefghi"), 4, 1);
  EXPECT_EQ(dataset.samples_per_epoch(), 2);
  for (std::int64_t i = 0; i < 2; ++i) {
    std::vector<std::int64_t> tokens(4);
    std::vector<std::int64_t> labels(4);
    dataset.sample(i, tokens, labels);
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(labels[k], tokens[k] + 1);
  }
}

TEST_F(TextDatasetTest, AnEpochReadsEachWindowOnceAndTheNextInAnotherOrder) {
  std::string text;
  for (int i = 0; i < 401; ++i) text.push_back(static_cast<char>('0' + i % 64));
  const TextDataset dataset(write(text), 4, 11);
  std::vector<std::vector<std::int64_t>> first;
  std::vector<std::vector<std::int64_t>> second;
  for (std::int64_t i = 0; i < 100; ++i) {
    first.push_back(tokens_of(dataset, i));
    second.push_back(tokens_of(dataset, 100 + i));
  }
  EXPECT_NE(first, second);
  EXPECT_EQ(std::multiset(first.begin(), first.end()), std::multiset(second.begin(), second.end()));
}

TEST_F(TextDatasetTest, ASampleDependsOnSeedAndIndexAlone) {
  std::string text(5000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(' ' + i * i % 90);
  const auto path = write(text);
  const TextDataset one(path, 16, 3);
  const TextDataset again(path, 16, 3);
  const TextDataset other_seed(path, 16, 4);
  int equal_under_other_seed = 0;
  for (std::int64_t i = 99; i >= 0; --i) {
    EXPECT_EQ(tokens_of(one, 99 - i), tokens_of(again, 99 - i));
    (void)tokens_of(again, i);
    if (tokens_of(one, i) == tokens_of(other_seed, i)) ++equal_under_other_seed;
  }
  EXPECT_LT(equal_under_other_seed, 10);
}

TEST_F(TextDatasetTest, HeldOutWindowsAreNeverTrainedOn) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += two_digits(i);
  text.push_back('.');
  const auto path = write(text);
  const TextDataset train(path, 2, 5, Split::kTrain);
  const TextDataset held_out(path, 2, 5, Split::kHeldOut);
  EXPECT_EQ(train.samples_per_epoch(), 57);
  EXPECT_EQ(held_out.samples_per_epoch(), 3);
  std::set<std::vector<std::int64_t>> seen;
  for (std::int64_t i = 0; i < 57; ++i) seen.insert(tokens_of(train, i));
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_FALSE(seen.contains(tokens_of(held_out, i)));
}

TEST_F(TextDatasetTest, SeveralThreadsReadTheSameSamples) {
  const TextDataset dataset(write(std::string(3000, 'a') + std::string(3000, 'b')), 32, 3);
  std::vector<std::vector<std::int64_t>> expected;
  for (std::int64_t i = 0; i < 64; ++i) expected.push_back(tokens_of(dataset, i));
  std::vector<std::vector<std::int64_t>> read(64);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < 64; i += 4) {
          read[i] = tokens_of(dataset, static_cast<std::int64_t>(i));
        }
      });
    }
  }
  EXPECT_EQ(read, expected);
}

TEST_F(TextDatasetTest, AFileThatIsNotThereIsRefusedWithItsKey) {
  EXPECT_THAT([] { TextDataset("/nonexistent/file.txt", 8, 1); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("dataset.path"), HasSubstr("/nonexistent/file.txt"))));
}

TEST_F(TextDatasetTest, AFolderAndADeviceAreRefused) {
  EXPECT_THAT([] { TextDataset("/tmp", 8, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("not a regular file")));
  EXPECT_THAT([] { TextDataset("/dev/zero", 8, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("not a regular file")));
}

TEST_F(TextDatasetTest, ABinaryFileIsRefusedWithTheOffset) {
  const auto path = write(std::string("text then ") + '\xff' + "more");
  EXPECT_THAT([&] { TextDataset(path, 4, 1); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("UTF-8"), HasSubstr("offset 10"))));
}

TEST_F(TextDatasetTest, AFileShorterThanASampleIsRefusedWithTheLengthThatFits) {
  const auto path = write("123456789");
  EXPECT_THAT([&] { TextDataset(path, 9, 1); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("9 bytes"), HasSubstr("take 10"), HasSubstr("at most 8"))));
  EXPECT_EQ(TextDataset(path, 8, 1).samples_per_epoch(), 1);
  const auto empty = write("");
  EXPECT_THAT([&] { TextDataset(empty, 8, 1); }, ThrowsMessage<ConfigError>(HasSubstr("0 bytes")));
}

TEST_F(TextDatasetTest, AFileCutShortWhileInUseIsAnErrorNotACrash) {
  const auto path = write(std::string(4096, 'a'));
  const TextDataset dataset(path, 512, 1);
  std::filesystem::resize_file(path, 10);
  EXPECT_THAT([&] { (void)tokens_of(dataset, 0); }, ThrowsMessage<Error>(HasSubstr("shorter")));
}

}  // namespace
}  // namespace spillway::training
