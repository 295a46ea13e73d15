#include "spillway/report/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spillway/core/error.h"

namespace spillway::report {
namespace {

using testing::HasSubstr;

IterationMetrics example() {
  IterationMetrics m;
  m.iteration = 3;
  m.loss = static_cast<double>(2.3456789F);
  m.grad_norm = 0.5;
  m.learning_rate = 3e-4;
  m.tokens_per_second = 1234.0;
  m.milliseconds = 56.25;
  m.peak_device_memory = Bytes(123'456'789'012);
  m.host_memory = Bytes(1'000'000);
  m.bytes_to_host = Bytes(400);
  m.bytes_to_device = Bytes(200);
  m.skipped_steps = 1;
  return m;
}

TEST(Metrics, EveryFieldIsThereUnderItsName) {
  const auto record = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(record.at("iteration"), 3);
  EXPECT_EQ(record.at("grad_norm"), 0.5);
  EXPECT_EQ(record.at("learning_rate"), 3e-4);
  EXPECT_EQ(record.at("tokens_per_second"), 1234.0);
  EXPECT_EQ(record.at("milliseconds"), 56.25);
  EXPECT_EQ(record.at("peak_device_memory"), 123'456'789'012);
  EXPECT_EQ(record.at("host_memory"), 1'000'000);
  EXPECT_EQ(record.at("bytes_to_host"), 400);
  EXPECT_EQ(record.at("bytes_to_device"), 200);
  EXPECT_EQ(record.at("step_skipped"), false);
  EXPECT_EQ(record.at("skipped_steps"), 1);
  EXPECT_FALSE(record.contains("eval_loss"));
  EXPECT_FALSE(record.contains("load_balancing_loss"));
}

TEST(Metrics, TheLossComesBackBitForBit) {
  const auto record = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(static_cast<float>(record.at("loss").get<double>()), 2.3456789F);
}

TEST(Metrics, WhatIsNotFiniteIsNullSoThatTheLineStaysJson) {
  auto m = example();
  m.grad_norm = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(nlohmann::json::parse(to_json(m)).at("grad_norm").is_null());
}

TEST(Metrics, OptionalFieldsAppearWhenSet) {
  auto m = example();
  m.eval_loss = 2.0;
  m.load_balancing_loss = 1.5;
  const auto record = nlohmann::json::parse(to_json(m));
  EXPECT_EQ(record.at("eval_loss"), 2.0);
  EXPECT_EQ(record.at("load_balancing_loss"), 1.5);
  EXPECT_THAT(to_line(m, 20), HasSubstr("eval loss 2.0000"));
}

TEST(Metrics, EachLineIsInTheFileAsSoonAsItIsWritten) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("spillway_metrics_" + std::to_string(::getpid()) + ".jsonl");
  MetricsWriter writer(path);
  for (int i = 1; i <= 3; ++i) {
    auto m = example();
    m.iteration = i;
    writer.write(m);
    std::ifstream file(path);
    std::vector<nlohmann::json> records;
    for (std::string line; std::getline(file, line);)
      records.push_back(nlohmann::json::parse(line));
    ASSERT_EQ(records.size(), static_cast<std::size_t>(i));
    EXPECT_EQ(records.back().at("iteration"), i);
  }
  std::filesystem::remove(path);
}

TEST(Metrics, WhatWasWrittenIsReadBackAndACutOffLineIsLeftOut) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("spillway_read_metrics_" + std::to_string(::getpid()) + ".jsonl");
  auto written = example();
  written.eval_loss = 2.5;
  MetricsWriter(path).write(written);
  std::ofstream(path, std::ios::app) << R"({"iteration": 4, "lo)";
  const auto read = read_metrics(path);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(to_json(read.front()), to_json(written));
  std::ofstream(path) << "not json\n";
  EXPECT_THAT([&] { (void)read_metrics(path); },
              testing::ThrowsMessage<Error>(HasSubstr("line 1")));
  std::filesystem::remove(path);
}

TEST(Metrics, AFileThatCannotBeMadeIsRefusedWithItsKey) {
  EXPECT_THAT([] { MetricsWriter("/nonexistent/folder/metrics.jsonl"); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("logger.metrics_file")));
}

TEST(Metrics, AFullDiskIsAnErrorNotASilentLoss) {
  MetricsWriter writer("/dev/full");
  EXPECT_THAT([&] { writer.write(example()); }, testing::ThrowsMessage<Error>(HasSubstr("space")));
}

TEST(Metrics, ALineShowsWhatPeopleLookFor) {
  const std::string line = to_line(example(), 20);
  for (const char* part : {"iteration 3/20", "loss 2.3457", "grad norm 0.5000", "lr 3.000e-04",
                           "1234 tokens/s", "56.2 ms", "skipped 1"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

}  // namespace
}  // namespace spillway::report
