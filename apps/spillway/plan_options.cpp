#include "plan_options.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "spillway/config/validate.h"
#include "spillway/core/error.h"

namespace spillway::cli {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw ConfigError(fmt::format("--hardware {}: the file cannot be read", path));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool names_a_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.find('.') != std::string::npos;
}

}  // namespace

std::shared_ptr<PlanOptions> PlanOptions::add_to(CLI::App& command) {
  auto options = std::make_shared<PlanOptions>();
  command
      .add_option("--gpus,--ranks", options->num_gpus_,
                  "GPUs in all (default: as few as the layout takes)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command
      .add_option("--hardware", options->hardware_,
                  fmt::format("Data sheet ({}) or a file that spillway probe wrote",
                              fmt::join(planner::hardware_names(), ", ")))
      ->type_name("NAME|FILE")
      ->capture_default_str();
  command
      .add_option("--gpu-memory", options->gpu_memory_,
                  "Memory of a GPU, instead of the hardware's")
      ->type_name("80GB");
  command
      .add_option("--host-memory", options->host_memory_,
                  "Host memory of a node, instead of the hardware's")
      ->type_name("1TB");
  command
      .add_option("--step-ms", options->step_milliseconds_,
                  "Measured milliseconds of a step without offloading")
      ->check(CLI::PositiveNumber)
      ->type_name("MS");
  command
      .add_option("--megatron-threads", options->megatron_threads_,
                  "Host threads a rank has under Megatron (torchrun: 1)")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->capture_default_str();
  return options;
}

planner::PlanRequest PlanOptions::request(const config::ConfigContainer& config,
                                          std::optional<std::int64_t> num_ranks) const {
  planner::PlanRequest request;
  request.config = config;
  request.hardware = names_a_file(hardware_) ? planner::parse_hardware(read_file(hardware_))
                                             : planner::find_hardware(hardware_);
  request.cluster.num_ranks =
      num_gpus_.value_or(num_ranks.value_or(config::min_ranks(config.model)));
  request.cluster.ranks_per_node = request.hardware.gpus_per_node;
  if (gpu_memory_) request.device_memory = parse_bytes(*gpu_memory_);
  if (host_memory_) request.host_memory = parse_bytes(*host_memory_);
  if (step_milliseconds_) request.measured_step = *step_milliseconds_ / 1e3;
  request.megatron_threads = megatron_threads_;
  return request;
}

}  // namespace spillway::cli
