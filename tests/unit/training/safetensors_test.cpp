#include "training/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "spillway/core/error.h"

namespace spillway::training {
namespace {

class Safetensors : public testing::Test {
 protected:
  ~Safetensors() override { std::filesystem::remove(path_); }

  void write(std::uint64_t length, const std::string& header, std::size_t data_bytes) {
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header << std::string(data_bytes, 'x');
  }
  void write(const std::string& header, std::size_t data_bytes) {
    write(header.size(), header, data_bytes);
  }

  void expect_refusal(const std::string& why) {
    try {
      const SafetensorsFile file(path_);
      FAIL() << "the file was accepted; expected: " << why;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(),
                  testing::AllOf(testing::HasSubstr(why), testing::HasSubstr(path_.string())));
    }
  }

  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("spillway_safetensors_test_" + std::to_string(::getpid()));
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_F(Safetensors, AreReadBackAsWritten) {
  const std::vector<float> floats{1.0F, -2.5F, 3.0F, 0.0F, 5.0F, 6.0F};
  const std::vector<std::int64_t> numbers{7, -8};
  write_safetensors(path_, {{"a", {DType::kFloat32, {2, 3}, std::as_bytes(std::span(floats))}},
                            {"b", {DType::kInt64, {2}, std::as_bytes(std::span(numbers))}},
                            {"empty", {DType::kBFloat16, {0, 4}, {}}}});
  const SafetensorsFile file(path_);
  ASSERT_EQ(file.tensors().size(), 3U);
  const StoredTensor& a = file.tensors().at("a");
  EXPECT_EQ(a.dtype, DType::kFloat32);
  EXPECT_THAT(a.shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(a.bytes.data(), floats.data(), a.bytes.size()), 0);
  EXPECT_EQ(std::memcmp(file.tensors().at("b").bytes.data(), numbers.data(), 16), 0);
  EXPECT_TRUE(file.tensors().at("empty").bytes.empty());
}

TEST_F(Safetensors, MayHaveMetadataAndScalars) {
  write(R"({"__metadata__":{"format":"pt"},"s":)" + entry("F32", "[]", "[0,4]") + "}", 4);
  EXPECT_TRUE(SafetensorsFile(path_).tensors().at("s").shape.empty());
}

TEST_F(Safetensors, StayReadableThroughACopyOfTheFileObject) {
  write(R"({"s":)" + entry("U8", "[3]", "[0,3]") + "}", 3);
  auto first = std::make_unique<SafetensorsFile>(path_);
  const SafetensorsFile copy = *first;
  first.reset();
  EXPECT_EQ(copy.tensors().at("s").bytes[2], std::byte{'x'});
}

TEST_F(Safetensors, ThatAreMissingEmptyOrAFolderAreRefused) {
  expect_refusal("No such file");
  std::ofstream(path_).close();
  expect_refusal("too few for a header");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  expect_refusal("not a regular file");
}

TEST_F(Safetensors, WithAHeaderLongerThanTheFileAreRefused) {
  write(1000, "{}", 0);
  expect_refusal("1000 bytes long");
  write(~std::uint64_t{0}, "{}", 64);
  expect_refusal("18446744073709551615 bytes long");
}

TEST_F(Safetensors, WithAHeaderThatIsNoObjectAreRefused) {
  write("{\"a\":", 0);
  expect_refusal("not JSON");
  write("[1]", 0);
  expect_refusal("not an object");
  write(R"({"a":5})", 0);
  expect_refusal("tensor 'a': its entry is not an object");
  write(std::string("{\"\xff\":1}"), 0);
  expect_refusal("not JSON");
}

TEST_F(Safetensors, WithANameTwiceAreRefused) {
  const std::string one = entry("U8", "[1]", "[0,1]");
  write(R"({"a":)" + one + R"(,"a":)" + one + "}", 1);
  expect_refusal("'a' is there twice");
}

TEST_F(Safetensors, WithAnUnknownOrMissingDtypeAreRefused) {
  write(R"({"a":)" + entry("F8_E4M3", "[1]", "[0,1]") + "}", 1);
  expect_refusal("'F8_E4M3' is not supported");
  write(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1);
  expect_refusal("no dtype");
}

TEST_F(Safetensors, WithShapesThatAreNotCountsAreRefused) {
  for (const char* shape : {"[-1]", "[1.5]", "[\"1\"]", "[18446744073709551615]"}) {
    write(R"({"a":)" + entry("U8", shape, "[0,1]") + "}", 1);
    expect_refusal("a dimension of its shape");
  }
  write(R"({"a":)" + entry("U8", "1", "[0,1]") + "}", 1);
  expect_refusal("no shape");
}

TEST_F(Safetensors, WhoseElementsOverflowAreRefused) {
  write(R"({"a":)" + entry("F32", "[4611686018427387904,4611686018427387904]", "[0,0]") + "}", 0);
  expect_refusal("more elements than can be counted");
}

TEST_F(Safetensors, WithOffsetsOutsideTheDataAreRefused) {
  write(R"({"a":)" + entry("U8", "[2]", "[0,2]") + "}", 1);
  expect_refusal("outside the 1 bytes");
  write(R"({"a":)" + entry("U8", "[1]", "[1,0]") + "}", 1);
  expect_refusal("outside");
  write(R"({"a":)" + entry("U8", "[1]", "[-1,0]") + "}", 1);
  expect_refusal("its first offset");
  write(R"({"a":)" + entry("U8", "[1]", "[0]") + "}", 1);
  expect_refusal("no pair");
}

TEST_F(Safetensors, WhoseShapeAndOffsetsDisagreeAreRefused) {
  write(R"({"a":)" + entry("F32", "[2,3]", "[0,20]") + "}", 20);
  expect_refusal("takes 24 bytes, its offsets hold 20");
}

TEST_F(Safetensors, WithOverlapsGapsOrBytesLeftOverAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":)" + entry("U8", "[4]", first) + R"(,"b":)" + entry("U8", "[4]", second) + "}";
  };
  write(two("[0,4]", "[2,6]"), 6);
  expect_refusal("overlap");
  write(two("[0,4]", "[5,9]"), 9);
  expect_refusal("gap");
  write(two("[0,4]", "[4,8]"), 9);
  expect_refusal("after the last tensor");
}

TEST_F(Safetensors, ThatAreCutShortAnywhereAreRefused) {
  const std::vector<float> floats(64, 1.0F);
  write_safetensors(path_, {{"a", {DType::kFloat32, {64}, std::as_bytes(std::span(floats))}}});
  const auto size = std::filesystem::file_size(path_);
  for (std::uintmax_t kept = 0; kept < size; ++kept) {
    std::filesystem::resize_file(path_, kept);
    EXPECT_THROW(SafetensorsFile{path_}, ConfigError) << kept << " of " << size << " bytes";
    std::filesystem::remove(path_);
    write_safetensors(path_, {{"a", {DType::kFloat32, {64}, std::as_bytes(std::span(floats))}}});
  }
}

}  // namespace
}  // namespace spillway::training
