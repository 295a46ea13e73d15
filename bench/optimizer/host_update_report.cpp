// The host update as a share of what memory allows, everything measured in turn in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ceilings.h"
#include "host_arrays.h"
#include "spillway/optimizer/host_threads.h"

namespace spillway::optimizer::bench {
namespace {

struct Options {
  std::int64_t elements = std::int64_t{256} << 20;
  std::vector<int> threads;
  int rounds = 7;
  std::string isa = "auto";
  bool json = false;
};

struct Row {
  std::string name;
  double bytes_per_element = 0.0;
  std::function<void()> prepare;
  std::function<void()> run;
  std::vector<double> seconds;

  [[nodiscard]] double median_seconds() {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }
};

std::vector<Row> make_rows(const kernels::HostKernels& form, HostArrays& arrays, HostPool& pool) {
  const auto plain = [&] { arrays.reset({}, pool); };
  std::vector<Row> rows;
  rows.push_back({"in_place", kInPlaceBytes, plain, [&] { in_place(arrays, pool); }, {}});
  rows.push_back({"triad", kTriadBytes, plain, [&] { triad(arrays, pool); }, {}});
  const auto add = [&](const NamedFormat& named, const std::string& name,
                       kernels::ParameterStore store) {
    rows.push_back(
        {name,
         named.bytes_per_element,
         [&, format = named.format] { arrays.reset(format, pool); },
         [&, format = named.format, store] { update(form, format, arrays, store, pool); },
         {}});
  };
  for (const NamedFormat& named : measured_formats()) {
    add(named, named.name, kernels::ParameterStore::kCached);
    if (named.format.master == kernels::MasterKind::kFloat32) {
      add(named, named.name + "_streaming", kernels::ParameterStore::kStreaming);
    }
  }
  return rows;
}

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Rounds over all rows, so that a machine that changes its pace does so for all of them.
void measure(std::vector<Row>& rows, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      row.prepare();
      row.run();
      row.seconds.push_back(seconds_of(row.run));
    }
  }
}

void print(std::vector<Row>& rows, const Options& options, int threads, std::string_view isa) {
  const auto elements = static_cast<double>(options.elements);
  const double ceiling = kInPlaceBytes * elements / rows.front().median_seconds();
  if (!options.json) fmt::print("{} threads, {}\n", threads, isa);
  for (Row& row : rows) {
    const double seconds = row.median_seconds();
    const double rate = row.bytes_per_element * elements / seconds;
    if (options.json) {
      const nlohmann::json line = {{"name", row.name},
                                   {"threads", threads},
                                   {"isa", isa},
                                   {"elements", options.elements},
                                   {"rounds", options.rounds},
                                   {"seconds_per_1e9", seconds / elements * 1e9},
                                   {"bytes_per_element", row.bytes_per_element},
                                   {"bytes_per_second", rate},
                                   {"share_of_in_place", rate / ceiling}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("  {:28} {:7.4f} s per 1e9   {:6.1f} GB/s   {:5.3f} of in_place\n", row.name,
                 seconds / elements * 1e9, rate / 1e9, rate / ceiling);
    }
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Host update against the in-place bandwidth, measured in the same run");
  app.add_option("--elements", options.elements, "parameters; 20 B of memory each")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "thread counts; default: those of this rank")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "rounds; the median counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--isa", options.isa, "auto, scalar, avx2 or avx512");
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);

  const kernels::HostKernels& form = kernels::host_kernels(options.isa);
  const ThreadCount mine = choose_host_threads(read_cpu_budget(), 0);
  if (options.threads.empty()) options.threads = {mine.count};
  HostPool first_touch(*std::ranges::max_element(options.threads));
  HostArrays arrays(options.elements, first_touch);
  for (const int threads : options.threads) {
    HostPool pool(threads);
    auto rows = make_rows(form, arrays, pool);
    measure(rows, options.rounds);
    print(rows, options, threads, kernels::name_of(form.isa));
  }
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
