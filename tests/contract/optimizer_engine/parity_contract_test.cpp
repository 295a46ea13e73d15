// Where states are and where they are updated changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "contract/optimizer_engine/test_model.h"

namespace spillway::optimizer {
namespace {

OptimizerOptions base_options() {
  OptimizerOptions options;
  options.clip_grad = 1.0;
  options.chunk_bytes = 8_KiB;
  options.ring_slots = 3;
  options.host_threads = 2;
  return options;
}

/// Every byte of every parameter that has a gradient must not stay the same, or a test would pass
/// with no update at all.
void expect_moved(const Trace& trace) {
  const auto& first = trace.parameters.front();
  const auto& last = trace.parameters.back();
  std::size_t num_changed = 0;
  for (std::size_t i = 0; i < first.size(); ++i) num_changed += first[i] != last[i] ? 1 : 0;
  EXPECT_GT(num_changed, first.size() / 4);
}

using Placement = std::tuple<device::Backend, double, bool, OffloadUpdate, MasterFormat>;

class Parity : public testing::TestWithParam<Placement> {};

TEST_P(Parity, ParametersStatesAndNormsHaveTheBitsOfTheRunWithoutOffloading) {
  const auto& [backend, fraction, overlap, update, master] = GetParam();
  const auto device = open(backend);
  OptimizerOptions options = base_options();
  const Trace expected = train(device, awkward_specs(), options);
  expect_moved(expected);
  EXPECT_EQ(expected.num_skipped, 1);
  options.offload_fraction = fraction;
  options.overlap = overlap;
  options.update = update;
  options.master = master;
  expect_equal(train(device, awkward_specs(), options), expected);
}

std::string placement_name(const testing::TestParamInfo<Placement>& info) {
  const auto& [backend, fraction, overlap, update, master] = info.param;
  const char* const updates[] = {"Auto", "Host", "Stream"};
  return backend.name + std::to_string(static_cast<int>(100 * fraction)) +
         (overlap ? "Overlap" : "Ordered") + updates[static_cast<int>(update)] +
         (master == MasterFormat::kFloat32 ? "Float32" : "Remainder");
}

INSTANTIATE_TEST_SUITE_P(
    All, Parity,
    testing::Combine(testing::ValuesIn(device::backends()),
                     testing::Values(0.0, 0.25, 0.5, 0.75, 1.0), testing::Bool(),
                     testing::Values(OffloadUpdate::kAuto, OffloadUpdate::kHost,
                                     OffloadUpdate::kStream),
                     testing::Values(MasterFormat::kFloat32, MasterFormat::kRemainder)),
    placement_name);

}  // namespace
}  // namespace spillway::optimizer
