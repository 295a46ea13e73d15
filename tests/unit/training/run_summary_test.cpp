#include "training/loop/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/core/error.h"

namespace spillway::training {
namespace {

using testing::HasSubstr;

RunResult three_iterations() {
  RunResult result;
  for (int i = 1; i <= 3; ++i) {
    report::IterationMetrics m;
    m.iteration = i;
    m.loss = 6.0 - i;
    m.milliseconds = i == 1 ? 900.0 : 100.0;
    m.peak_device_memory = Bytes(1000 * (i == 2 ? 9 : i));
    m.bytes_to_host = Bytes(i == 1 ? 5 : 40);
    m.skipped_steps = 1;
    result.iterations.push_back(m);
  }
  return result;
}

RunDescription description() {
  RunDescription d;
  d.device = "emulated";
  d.num_parameters = 100;
  d.weights = Bytes(200);
  d.placement.num_elements = 100;
  d.placement.num_offloaded_elements = 25;
  d.placement.device_state = Bytes(900);
  d.placement.host_state = Bytes(300);
  d.placement.update = "host";
  return d;
}

TEST(RunSummary, TheFirstIterationCountsForThePeakButNotForTimes) {
  const auto summary = summarize(description(), three_iterations(), 5);
  EXPECT_EQ(summary.iterations, 3);
  EXPECT_EQ(summary.first_loss, 5.0);
  EXPECT_EQ(summary.last_loss, 3.0);
  EXPECT_EQ(summary.median_milliseconds, 100.0);
  EXPECT_EQ(summary.bytes_to_host, Bytes(40));
  EXPECT_EQ(summary.peak_device_memory, Bytes(9000));
  EXPECT_EQ(summary.skipped_steps, 1);
}

TEST(RunSummary, JsonKeepsEveryField) {
  const auto summary = summarize(description(), three_iterations(), 5);
  const std::string text = to_json(summary);
  EXPECT_EQ(to_json(summary_from_json(text)), text);
  EXPECT_THAT([] { (void)summary_from_json("{}"); },
              testing::ThrowsMessage<Error>(HasSubstr("device")));
}

TEST(RunSummary, TheClosingTableShowsShareAndInterruption) {
  auto result = three_iterations();
  result.interrupted = true;
  const std::string table = closing_table(summarize(description(), result, 5));
  EXPECT_THAT(table, HasSubstr("3 of 5, interrupted"));
  EXPECT_THAT(table, HasSubstr("25.00 %"));
}

TEST(RunSummary, ARunWithoutIterationsHasASummaryToo) {
  const auto summary = summarize(description(), RunResult{}, 5);
  EXPECT_EQ(summary.iterations, 0);
  EXPECT_THAT(closing_table(summary), HasSubstr("0 of 5"));
}

}  // namespace
}  // namespace spillway::training
