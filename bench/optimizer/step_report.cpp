// Whole steps at fraction 1.0 against what the link and the host allow, everything in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "host_arrays.h"
#include "link_ceiling.h"
#include "spillway/optimizer/host_threads.h"
#include "step_fixture.h"

namespace spillway::optimizer::bench {
namespace {

struct Options {
  std::int64_t elements = std::int64_t{16} << 20;
  std::string device = "auto";
  std::string link;  // emulated
  std::string chunk = "16MiB";
  int ring = 4;
  int threads = 0;
  int rounds = 7;
  std::vector<std::int64_t> growth;
  bool json = false;
};

/// One line of the report.
struct Row {
  std::string name;
  double value = 0.0;
  std::string unit;
  double ratio = 0.0;  // to what the note says; 0: none
  std::string note;
};

class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void add(const Row& row) const {
    if (json_) {
      nlohmann::json line = {{"name", row.name}, {"value", row.value}, {"unit", row.unit}};
      if (row.ratio > 0.0) line.update({{"ratio", row.ratio}, {"of", row.note}});
      fmt::print("{}\n", line.dump());
    } else if (row.ratio > 0.0) {
      fmt::print("{:34} {:10.4f} {:10} {:6.3f} of {}\n", row.name, row.value, row.unit, row.ratio,
                 row.note);
    } else {
      fmt::print("{:34} {:10.4f} {}\n", row.name, row.value, row.unit);
    }
    std::fflush(stdout);
  }

 private:
  bool json_;
};

std::shared_ptr<device::Device> open(const Options& options) {
  device::DeviceOptions wanted;
  if (options.device == "cuda") wanted.kind = device::DeviceOptions::Choice::kCuda;
  if (options.device == "emulated") wanted.kind = device::DeviceOptions::Choice::kEmulated;
  if (!options.link.empty())
    wanted.link_bandwidth_bytes_per_second = static_cast<double>(parse_bytes(options.link).value);
  return device::open_device(wanted);
}

OptimizerOptions step_options(const Options& options, OffloadUpdate update, MasterFormat master) {
  OptimizerOptions result;
  result.offload_fraction = 1.0;
  result.update = update;
  result.master = master;
  result.chunk_bytes = parse_bytes(options.chunk);
  result.ring_slots = options.ring;
  result.host_threads = options.threads;
  return result;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Steps until `auto` has tried everything, then the median of the rounds.
double measure_step(const std::shared_ptr<device::Device>& device, const Options& options,
                    const std::vector<std::int64_t>& sizes, const OptimizerOptions& step) {
  constexpr int kWarmUp = 10;
  StepFixture fixture(device, sizes, step);
  for (int i = 0; i < kWarmUp; ++i) fixture.step();
  std::vector<double> seconds;
  for (int i = 0; i < options.rounds; ++i) seconds.push_back(fixture.step());
  return median(seconds);
}

/// The kernel of the host update on arrays that are there already, with the same threads.
double measure_kernel(const Options& options, MasterFormat master) {
  HostPool pool(choose_host_threads(read_cpu_budget(), options.threads).count);
  HostArrays arrays(options.elements, pool);
  kernels::UpdateFormat format;
  if (master == MasterFormat::kRemainder) format.master = kernels::MasterKind::kRemainder;
  arrays.reset(format, pool);
  std::vector<double> seconds;
  for (int i = 0; i <= options.rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    update(kernels::host_kernels(), format, arrays, kernels::ParameterStore::kCached, pool);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return median({seconds.begin() + 1, seconds.end()});
}

void report_placements(const Report& report, const std::shared_ptr<device::Device>& device,
                       const Options& options, const LinkRates& link) {
  const auto elements = static_cast<double>(options.elements);
  const auto sizes = layer_sizes(options.elements);
  for (const MasterFormat master : {MasterFormat::kFloat32, MasterFormat::kRemainder}) {
    const bool is_fp32 = master == MasterFormat::kFloat32;
    const std::string suffix = is_fp32 ? "_fp32_master" : "_remainder";
    const auto seconds = [&](OffloadUpdate update) {
      return measure_step(device, options, sizes, step_options(options, update, master));
    };
    const double kernel = measure_kernel(options, master);
    const double host = seconds(OffloadUpdate::kHost);
    const double stream = seconds(OffloadUpdate::kStream);
    const double both = seconds(OffloadUpdate::kAuto);
    const double floor = (is_fp32 ? 12.0 : 10.0) * elements / link.both_bytes_per_second;
    const double per_billion = 1e9 / elements;
    report.add({"host_kernel" + suffix, kernel * per_billion, "s per 1e9", 0.0, ""});
    report.add({"host_step" + suffix, host * per_billion, "s per 1e9", host / kernel,
                "host_kernel (lower is better)"});
    report.add({"stream_step" + suffix, stream * per_billion, "s per 1e9", floor / stream,
                "the two-way bandwidth"});
    report.add({"auto_step" + suffix, both * per_billion, "s per 1e9",
                both / std::min(host, stream), "the better pure way (lower is better)"});
  }
}

/// How long somebody else's one-element read takes while states stream at full speed.
void report_small_reads(const Report& report, const std::shared_ptr<device::Device>& device,
                        const Options& options) {
  OptimizerOptions step =
      step_options(options, OffloadUpdate::kStream, MasterFormat::kRemainder);
  step.overlap = true;
  StepFixture fixture(device, layer_sizes(options.elements), step);
  const device::Buffer value = device->allocate(4_B, "bench value");
  const device::Buffer host = device->allocate_host(4_B, "bench value");
  device::Stream reader = device->create_stream("bench reader");
  const double step_seconds = fixture.step();
  std::vector<double> milliseconds;
  for (int round = 0; round < options.rounds; ++round) {
    fixture.start_step();
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(step_seconds);
    while (std::chrono::steady_clock::now() < end) {
      const auto start = std::chrono::steady_clock::now();
      device->copy(host.span(), value.span(), device::Direction::kDeviceToHost, reader)
          .synchronize();
      milliseconds.push_back(1e3 * std::chrono::duration<double>(
                                       std::chrono::steady_clock::now() - start)
                                       .count());
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    fixture.optimizer().synchronize();
  }
  std::ranges::sort(milliseconds);
  const auto at = [&](double share) {
    return milliseconds[static_cast<std::size_t>(share *
                                                 static_cast<double>(milliseconds.size() - 1))];
  };
  report.add({"small_read_median", at(0.5), "ms", 0.0, ""});
  report.add({"small_read_99_percent", at(0.99), "ms", 0.0, ""});
}

void report_many_small(const Report& report, const std::shared_ptr<device::Device>& device,
                       const Options& options) {
  constexpr std::int64_t kCount = 100000;
  const std::int64_t each = std::max<std::int64_t>(1, options.elements / kCount);
  const std::vector<std::int64_t> small(static_cast<std::size_t>(kCount), each);
  for (const auto& [name, update] :
       {std::pair{"host", OffloadUpdate::kHost}, std::pair{"stream", OffloadUpdate::kStream}}) {
    const OptimizerOptions step = step_options(options, update, MasterFormat::kRemainder);
    const double one = measure_step(device, options, {kCount * each}, step);
    const double many = measure_step(device, options, small, step);
    report.add({std::string("small_parameters_") + name, 1e3 * many, "ms", many / one,
                "one parameter of their size (lower is better)"});
  }
}

void report_growth(const Report& report, const std::shared_ptr<device::Device>& device,
                   const Options& options) {
  for (const std::int64_t elements : options.growth) {
    const double seconds =
        measure_step(device, options, layer_sizes(elements),
                     step_options(options, OffloadUpdate::kAuto, MasterFormat::kRemainder));
    report.add({fmt::format("growth_{}", elements), seconds / static_cast<double>(elements) * 1e9,
                "s per 1e9", 0.0, ""});
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Steps of the optimizer with all states on the host, against the run's own ceilings");
  app.add_option("--elements", options.elements, "parameters")->check(CLI::PositiveNumber);
  app.add_option("--device", options.device, "auto, cuda or emulated");
  app.add_option("--link", options.link, "emulated link, bytes a second each way: 2GB");
  app.add_option("--chunk", options.chunk, "states of one chunk");
  app.add_option("--ring", options.ring, "chunks staged at a time")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "host threads; 0: those of this rank");
  app.add_option("--rounds", options.rounds, "rounds; the median counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--growth", options.growth, "also measure these sizes")->delimiter(',');
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);

  const auto device = open(options);
  const Report report(options.json);
  if (!options.json) fmt::print("{}\n", device->description());
  const LinkRates link = measure_link(*device, 256_MiB, options.rounds);
  report.add({"link_in", link.in_bytes_per_second / 1e9, "GB/s", 0.0, ""});
  report.add({"link_out", link.out_bytes_per_second / 1e9, "GB/s", 0.0, ""});
  report.add({"link_both_each_way", link.both_bytes_per_second / 1e9, "GB/s", 0.0, ""});
  report_placements(report, device, options, link);
  report_small_reads(report, device, options);
  report_many_small(report, device, options);
  report_growth(report, device, options);
  return 0;
}

}  // namespace
}  // namespace spillway::optimizer::bench

int main(int argc, char** argv) {
  try {
    return spillway::optimizer::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
