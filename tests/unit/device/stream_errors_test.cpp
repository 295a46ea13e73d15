#include "device/stream_errors.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace spillway::device {
namespace {

std::exception_ptr error(const char* text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

TEST(StreamErrors, are_carried_by_what_was_enqueued_between_the_failure_and_its_report) {
  StreamErrors errors;
  const auto before = errors.next();
  const auto task = errors.next();
  const auto after = errors.next();
  errors.fail(task, error("broken"));
  EXPECT_TRUE(errors.failed());
  errors.check(before);
  EXPECT_THROW(errors.check(after), std::runtime_error);
  EXPECT_TRUE(errors.clear() != nullptr);
  EXPECT_FALSE(errors.failed());
  EXPECT_THROW(errors.check(after), std::runtime_error);
  errors.check(errors.next());
}

TEST(StreamErrors, keep_the_first_of_several_and_report_it_once) {
  StreamErrors errors;
  errors.fail(errors.next(), error("first"));
  errors.fail(errors.next(), error("second"));
  try {
    std::rethrow_exception(errors.clear());
  } catch (const std::runtime_error& kept) {
    EXPECT_STREQ(kept.what(), "first");
  }
  EXPECT_TRUE(errors.clear() == nullptr);
}

TEST(StreamErrors, of_two_times_stay_apart) {
  StreamErrors errors;
  errors.fail(errors.next(), error("first"));
  (void)errors.clear();
  const auto between = errors.next();
  errors.fail(errors.next(), error("second"));
  const auto last = errors.next();
  errors.check(between);
  try {
    errors.check(last);
    FAIL() << "the second failure was lost";
  } catch (const std::runtime_error& kept) {
    EXPECT_STREQ(kept.what(), "second");
  }
}

}  // namespace
}  // namespace spillway::device
