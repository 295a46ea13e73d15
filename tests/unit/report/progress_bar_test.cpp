#include "spillway/report/progress_bar.h"

#include <gtest/gtest.h>

#include "spillway/report/table.h"

namespace spillway::report {
namespace {

TEST(ProgressBar, ShowsCountBarShareTimeLeftAndNote) {
  const Progress progress{.done = 5, .total = 20, .seconds_elapsed = 10.0, .note = "loss 2.31"};
  EXPECT_EQ(render_progress(progress, 48), "5/20 ━━━━──────────── 25 %  0:30 left  loss 2.31");
}

TEST(ProgressBar, DropsTheNoteAndThenTheBarWhereThereIsNoRoom) {
  const Progress progress{.done = 5, .total = 20, .seconds_elapsed = 10.0, .note = "loss 2.31"};
  EXPECT_EQ(render_progress(progress, 29), "5/20 ━━────── 25 %  0:30 left");
  EXPECT_EQ(render_progress(progress, 24), "5/20 25 %  0:30 left");
}

TEST(ProgressBar, NeverIsWiderThanAsked) {
  for (int width = 24; width < 200; ++width) {
    for (const std::int64_t done : {0, 1, 50, 100}) {
      const Progress progress{.done = done, .total = 100, .seconds_elapsed = 100.0, .note = "n"};
      EXPECT_LE(static_cast<int>(num_characters(render_progress(progress, width))), width);
    }
  }
}

TEST(ProgressBar, BeforeTheFirstIterationThereIsNoEstimate) {
  const Progress progress{.done = 0, .total = 0, .seconds_elapsed = 1.0, .note = ""};
  EXPECT_EQ(render_progress(progress, 10), "0/0 0 %");
}

TEST(ProgressBar, TimesReadAsAClock) {
  EXPECT_EQ(clock_text(0.4), "0:00");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3 * 3600 + 7 * 60 + 5), "3:07:05");
  EXPECT_EQ(clock_text(-1.0), "0:00");
}

}  // namespace
}  // namespace spillway::report
