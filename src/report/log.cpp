#include "spillway/report/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

namespace spillway::report {
namespace {

Color color_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return Color::kRed;
  if (level == spdlog::level::warn) return Color::kYellow;
  return Color::kNone;
}

/// The console has its own lock, so the sink needs none.
class ConsoleSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit ConsoleSink(std::shared_ptr<Console> console) : console_(std::move(console)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string text;
    if (message.level != spdlog::level::info) {
      text = std::string(spdlog::level::to_string_view(message.level).data()) + ": ";
    }
    text.append(message.payload.data(), message.payload.size());
    console_->line(text, color_of(message.level));
  }
  void flush_() override {}

 private:
  std::shared_ptr<Console> console_;
};

}  // namespace

void log_to(std::shared_ptr<Console> console) {
  auto sink = std::make_shared<ConsoleSink>(std::move(console));
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("spillway", std::move(sink)));
}

}  // namespace spillway::report
