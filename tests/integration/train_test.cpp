// spillway train as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "integration/run_program.h"
#include "integration/small_training.h"

namespace spillway::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDense = "qwen3_tiny_pretrain_config";

std::vector<std::string> words(const std::string& command, const std::string& recipe,
                               const std::vector<std::string>& more) {
  std::vector<std::string> all = {command, "--recipe", recipe};
  const auto small = training::small_overrides();
  all.insert(all.end(), small.begin(), small.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

ProgramResult train(const std::vector<std::string>& more) {
  return run_program(SPILLWAY_PROGRAM, words("train", kDense, more));
}

/// A file name of this process's own; the file goes with the object.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name)
      : path_(std::filesystem::path(::testing::TempDir()) /
              (name + "_" + std::to_string(::getpid()))) {}
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::vector<nlohmann::json> records(const std::string& path) {
  std::vector<nlohmann::json> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

TEST(Train, PrintsPlainLinesATableAndNoEscapeCodesIntoAPipe) {
  const auto result = train({});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("iteration 1/4 | loss "), HasSubstr("iteration 4/4 | loss "),
                    HasSubstr("4 of 4"), HasSubstr("device memory, peak")));
  EXPECT_THAT(result.output, AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\r"))));
  EXPECT_THAT(result.errors, Not(HasSubstr("\033")));
}

TEST(Train, WritesOneRecordPerIterationAndASummary) {
  const ScratchFile metrics("metrics");
  const ScratchFile summary("summary");
  const auto result =
      train({"logger.metrics_file='" + metrics.path() + "'", "--summary", summary.path()});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto all = records(metrics.path());
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].at("iteration"), i + 1);
    EXPECT_GT(all[i].at("peak_device_memory"), 0);
    EXPECT_GT(all[i].at("tokens_per_second"), 0.0);
    EXPECT_EQ(all[i].at("skipped_steps"), 0);
  }
  std::ifstream file(summary.path());
  const auto closing = nlohmann::json::parse(file);
  EXPECT_EQ(closing.at("iterations"), 4);
  EXPECT_EQ(closing.at("last_loss"), all[3].at("loss"));
}

TEST(Train, RefusesAnUnknownKeyWithTheNearest) {
  const auto result = train({"optimizer.optimizer_offload_fracton=0.5"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("optimizer_offload_fraction"));
}

TEST(Train, RefusesDataThatIsNotThereBeforeAnythingIsBuilt) {
  const auto result = train({"dataset.path=/nonexistent/text"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("dataset.path: /nonexistent/text"));
  EXPECT_THAT(result.output, Not(HasSubstr("iteration")));
}

TEST(Train, WarnsWhenTheSwitchIsOnAndTheFractionIsZero) {
  const auto result = train({"optimizer.optimizer_cpu_offload=True", "train.train_iters=2"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("warning"), HasSubstr("optimizer.optimizer_offload_fraction")));
}

TEST(Train, TheEverydayCommandIsRefusedWithRanksAndBytesWantedAndPresent) {
  const auto result =
      run_program(SPILLWAY_PROGRAM,
                  {"train", "--recipe", "qwen3_30b_a3b_pretrain_config", "device.kind=emulated",
                   "device.memory_limit=8GB", "optimizer.optimizer_cpu_offload=True",
                   "optimizer.optimizer_offload_fraction=0.5", "train.train_iters=20",
                   "train.global_batch_size=8", "train.micro_batch_size=1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("8 wanted"), HasSubstr("1 present"), HasSubstr("366.4 GB wanted"),
                    HasSubstr("8.0 GB present"), HasSubstr("model.tensor_model_parallel_size=1")));
}

TEST(Train, AfterAnOutOfMemoryTheOverridesThatItNamesFit) {
  const ScratchFile summary("summary");
  ASSERT_EQ(train({"--summary", summary.path()}).status, 0);
  std::ifstream file(summary.path());
  const auto peak = nlohmann::json::parse(file).at("peak_device_memory").get<std::int64_t>();
  const std::string limit = "device.memory_limit=" + std::to_string(peak * 9 / 10);
  const auto failed = train({limit});
  ASSERT_EQ(failed.status, 1);
  EXPECT_THAT(failed.errors,
              AllOf(HasSubstr("out of memory"), HasSubstr(" wanted, "), HasSubstr(" free"),
                    HasSubstr("These overrides fit, with a measured peak of ")));
  // The last line is the overrides.
  std::istringstream lines(failed.errors);
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  std::istringstream pieces(last);
  std::vector<std::string> overrides = {limit};
  for (std::string piece; pieces >> piece;) overrides.push_back(piece);
  ASSERT_GT(overrides.size(), 1U) << failed.errors;
  const auto fitted = train(overrides);
  EXPECT_EQ(fitted.status, 0) << fitted.errors;
}

TEST(Train, SaysSoWhenNothingFits) {
  const auto result = train({"device.memory_limit=1MB"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("1.0 MB"), HasSubstr("wanted")));
}

TEST(Train, CtrlCFinishesTheStepPrintsTheTableAndEndsWith130) {
  const ScratchFile metrics("metrics");
  // Interrupted once there is a record, however long starting takes.
  const std::string script = R"(file=$1; shift; "$@" & child=$!
    while kill -0 $child && [ ! -s "$file" ]; do sleep 0.05; done
    kill -INT $child; wait $child)";
  std::vector<std::string> arguments = {"-c", script, "sh", metrics.path(), SPILLWAY_PROGRAM};
  const auto command = words("train", kDense,
                             {"train.train_iters=100000", "logger.log_interval=100",
                              "logger.metrics_file='" + metrics.path() + "'"});
  arguments.insert(arguments.end(), command.begin(), command.end());
  const auto result = run_program("/bin/sh", arguments);
  EXPECT_EQ(result.status, 130) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("of 100000, interrupted"), HasSubstr("loss, first")));
  EXPECT_FALSE(records(metrics.path()).empty());
}

}  // namespace
}  // namespace spillway::testing
