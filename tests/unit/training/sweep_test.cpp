#include "training/sweep/sweep.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace spillway::training {
namespace {

SweptRun run_at(double fraction, double milliseconds, std::int64_t peak, double last_loss) {
  SweptRun swept;
  swept.point = {.fraction = fraction, .overlap = fraction > 0.0, .update = "host"};
  for (int i = 1; i <= 3; ++i) {
    report::IterationMetrics metrics;
    metrics.iteration = i;
    metrics.loss = i == 3 ? last_loss : 5.0 - i;
    swept.run.iterations.push_back(metrics);
  }
  RunSummary summary;
  summary.median_milliseconds = milliseconds;
  summary.peak_device_memory = Bytes(peak);
  summary.update = fraction > 0.0 ? "host" : "none";
  swept.run.summary = summary;
  return swept;
}

TEST(SweepPoints, hold_every_combination_and_the_base_once_and_first) {
  const auto points = sweep_points({0.5, 0.0, 1.0}, {false, true}, {"host", "stream"});
  ASSERT_EQ(points.size(), 9U);
  EXPECT_EQ(points.front().fraction, 0.0);
  for (std::size_t i = 1; i < points.size(); ++i) EXPECT_GT(points[i].fraction, 0.0);
}

TEST(SweepPoints, set_the_keys_of_their_configuration) {
  const auto config = at_point({}, {.fraction = 0.5, .overlap = true, .update = "stream"});
  EXPECT_TRUE(config.optimizer.optimizer_cpu_offload);
  EXPECT_EQ(config.optimizer.optimizer_offload_fraction, 0.5);
  EXPECT_TRUE(config.optimizer.overlap_cpu_optimizer_d2h_h2d);
  EXPECT_EQ(config.optimizer.offload_update, "stream");
  EXPECT_FALSE(at_point(config, {.fraction = 0.0}).optimizer.optimizer_cpu_offload);
}

TEST(SweepRows, compare_time_memory_and_losses_with_the_base) {
  const auto rows = rows_of({run_at(0.0, 100.0, 1000, 2.0), run_at(0.5, 103.0, 800, 2.0),
                             run_at(1.0, 110.0, 600, 2.0000000001)});
  EXPECT_DOUBLE_EQ(rows[1].slowdown, 1.03);
  EXPECT_EQ(rows[1].saved, Bytes(200));
  EXPECT_TRUE(rows[1].same_losses);
  EXPECT_FALSE(rows[2].same_losses) << "a difference in the last bits went unseen";
}

TEST(SweepRows, a_run_that_failed_is_said_to_have_failed_and_the_others_are_kept) {
  std::vector<SweptRun> runs{run_at(0.0, 100.0, 1000, 2.0), run_at(1.0, 110.0, 600, 2.0)};
  runs[1].run.summary.reset();
  const auto rows = rows_of(runs);
  EXPECT_FALSE(rows[1].ended_well);
  EXPECT_NE(sweep_table(rows).find("failed"), std::string::npos);
  EXPECT_NO_THROW((void)sweep_page(runs, "spillway sweep").html());
}

TEST(SweepRows, without_a_base_nothing_is_called_equal) {
  std::vector<SweptRun> runs{run_at(0.0, 100.0, 1000, 2.0), run_at(1.0, 110.0, 600, 2.0)};
  runs[0].run.summary.reset();
  EXPECT_FALSE(rows_of(runs)[1].same_losses);
}

TEST(SweepJson, has_a_row_per_run_with_bytes_as_integers) {
  const auto json = nlohmann::json::parse(
      sweep_json({run_at(0.0, 100.0, 1000, 2.0), run_at(1.0, 110.0, 600, 2.0)}));
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][1]["saved"], 400);
  EXPECT_EQ(json["rows"][1]["same_losses"], true);
}

}  // namespace
}  // namespace spillway::training
