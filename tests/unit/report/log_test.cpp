#include "spillway/report/log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "unit/report/captured_file.h"

namespace spillway::report {
namespace {

TEST(Log, MessagesGoThroughTheConsoleWithTheirLevel) {
  const CapturedFile captured;
  const auto before = spdlog::default_logger();
  log_to(std::make_shared<Console>(captured.file(), Terminal{}));
  spdlog::info("started with {} ranks", 1);
  spdlog::warn("pageable memory");
  spdlog::error("stopped");
  spdlog::set_default_logger(before);
  EXPECT_EQ(captured.text(), "started with 1 ranks\nwarning: pageable memory\nerror: stopped\n");
}

}  // namespace
}  // namespace spillway::report
