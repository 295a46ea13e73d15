#include "training_child.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "child_process.h"
#include "command.h"
#include "spillway/config/environment.h"
#include "spillway/config/yaml.h"
#include "spillway/report/progress_bar.h"
#include "training/loop/interrupt.h"

namespace spillway::cli {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

training::VerifiedRun run_training(config::ConfigContainer config, const std::string& name,
                                   const std::string& title, const std::filesystem::path& folder,
                                   report::Console& console) {
  const auto path = [&](const char* ending) { return folder / (name + ending); };
  const std::int64_t total = config.train.train_iters.value();
  config.logger.metrics_file = path(".jsonl").string();
  std::ofstream(path(".yaml")) << config::to_yaml(config);
  const auto poll = [&] {
    const auto done = static_cast<std::int64_t>(report::read_metrics(path(".jsonl")).size());
    const report::Progress progress{.done = done, .total = total, .note = title};
    console.status(render_progress(progress, console.terminal().width - 1));
    return !training::Interrupt::requested();
  };
  console.line(fmt::format("{}, {} iterations", title, total));
  training::VerifiedRun run;
  run.status = run_child(config::this_executable(),
                         {"train", "--config", path(".yaml").string(), "--summary",
                          path(".json").string(), "--no-advice"},
                         path(".out"), path(".err"), poll);
  console.clear_status();
  run.errors = read_text(path(".err"));
  run.iterations = report::read_metrics(path(".jsonl"));
  if (run.status == kSuccess) {
    run.summary = training::summary_from_json(read_text(path(".json")));
  }
  return run;
}

}  // namespace spillway::cli
