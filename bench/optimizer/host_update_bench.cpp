// The host update by format and thread count, beside what memory allows. One element count for all:
// 64 Mi, far beyond any cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "ceilings.h"
#include "host_arrays.h"
#include "spillway/optimizer/host_threads.h"

namespace spillway::optimizer::bench {
namespace {

constexpr std::int64_t kElements = std::int64_t{64} << 20;

HostArrays& shared_arrays(HostPool& pool) {
  static HostArrays arrays(kElements, pool);
  return arrays;
}

using Work = std::function<void(HostArrays&, HostPool&)>;

struct Case {
  std::string name;
  double bytes_per_element = 0.0;
  Work prepare;
  Work run;
};

void measure(benchmark::State& state, const Case& measured, int threads) {
  HostPool pool(threads);
  HostArrays& arrays = shared_arrays(pool);
  measured.prepare(arrays, pool);
  measured.run(arrays, pool);  // pages and caches as in the steady state
  for (auto _ : state) measured.run(arrays, pool);
  state.SetItemsProcessed(state.iterations() * kElements);
  const double bytes = measured.bytes_per_element * static_cast<double>(kElements);
  state.counters["GB/s"] = benchmark::Counter(bytes * static_cast<double>(state.iterations()) / 1e9,
                                              benchmark::Counter::kIsRate);
}

void add(Case measured, int threads) {
  const std::string name = measured.name + "/threads:" + std::to_string(threads);
  benchmark::RegisterBenchmark(
      name.c_str(),
      [measured = std::move(measured), threads](auto& state) { measure(state, measured, threads); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

void add_formats(int threads) {
  for (const NamedFormat& named : measured_formats()) {
    for (const kernels::HostKernels* form : kernels::available_host_kernels()) {
      if (form->isa == kernels::Isa::kScalar) continue;  // for tests and old CPUs
      const auto prepare = [format = named.format](HostArrays& arrays, HostPool& pool) {
        arrays.reset(format, pool);
      };
      const auto run = [format = named.format, form](HostArrays& arrays, HostPool& pool) {
        update(*form, format, arrays, kernels::ParameterStore::kCached, pool);
      };
      const std::string isa(kernels::name_of(form->isa));
      add({"host_update/" + named.name + "/" + isa, named.bytes_per_element, prepare, run},
          threads);
    }
  }
}

void add_all() {
  const int most = choose_host_threads(read_cpu_budget(), 0).count;
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    const auto prepare = [](HostArrays& arrays, HostPool& pool) { arrays.reset({}, pool); };
    add({"in_place", kInPlaceBytes, prepare, in_place}, threads);
    add({"triad", kTriadBytes, prepare, triad}, threads);
    add_formats(threads);
    if (threads == most) return;
  }
}

}  // namespace
}  // namespace spillway::optimizer::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  spillway::optimizer::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
