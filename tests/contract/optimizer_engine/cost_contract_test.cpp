// What a step moves, keeps and allocates.
#include <gtest/gtest.h>

#include <algorithm>

#include "contract/optimizer_engine/placements.h"
#include "spillway/core/error.h"
#include "spillway/device/emulated.h"

namespace spillway::optimizer {
namespace {

struct Moved {
  std::int64_t to_device = 0;
  std::int64_t to_host = 0;
  std::int64_t num_copies = 0;
};

Moved operator-(const device::TransferStats& after, const device::TransferStats& before) {
  return {after.to_device.value - before.to_device.value,
          after.to_host.value - before.to_host.value, after.num_copies - before.num_copies};
}

class Cost : public testing::TestWithParam<device::Backend> {
 protected:
  Cost() : device_(open(GetParam())) {}

  static OptimizerOptions options(double fraction, OffloadUpdate update, MasterFormat master) {
    OptimizerOptions result;
    result.offload_fraction = fraction;
    result.update = update;
    result.master = master;
    result.chunk_bytes = 256_KiB;
    result.host_threads = 2;
    return result;
  }

  /// What a step of the steady state moves.
  Moved moved_by_a_step(const std::vector<ParameterSpec>& specs, const OptimizerOptions& options) {
    TestModel model(device_, specs);
    model.randomize_gradients(1);
    HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}}, options);
    const auto step = [&] {
      optimizer.step(model.gradients(), {});
      optimizer.synchronize();
      (void)optimizer.result();
    };
    step();
    const device::TransferStats before = device_->transfers();
    step();
    return device_->transfers() - before;
  }

  /// The same without what every placement moves: the scalars of the step.
  Moved moved_for_offloading(const std::vector<ParameterSpec>& specs,
                             const OptimizerOptions& offloaded) {
    OptimizerOptions none = offloaded;
    none.offload_fraction = 0.0;
    const Moved base = moved_by_a_step(specs, none);
    EXPECT_EQ(base.to_device, 0) << "rates are read in place";
    const Moved all = moved_by_a_step(specs, offloaded);
    return {all.to_device - base.to_device, all.to_host - base.to_host,
            all.num_copies - base.num_copies};
  }

  std::shared_ptr<device::Device> device_;
};

TEST_P(Cost, TheHostUpdateMovesFourBytesAParameterWithFp32Masters) {
  const std::int64_t n = 400000;
  const Moved moved = moved_for_offloading(
      {{.num_elements = n}}, options(1.0, OffloadUpdate::kHost, MasterFormat::kFloat32));
  EXPECT_EQ(moved.to_host, 2 * n);
  EXPECT_EQ(moved.to_device, 2 * n);
}

TEST_P(Cost, TheHostUpdateFetchesTheParameterAsWellWithRemainders) {
  const std::int64_t n = 400000;
  const Moved moved = moved_for_offloading(
      {{.num_elements = n}}, options(1.0, OffloadUpdate::kHost, MasterFormat::kRemainder));
  EXPECT_EQ(moved.to_host, 4 * n);
  EXPECT_EQ(moved.to_device, 2 * n);
}

TEST_P(Cost, TheStreamedUpdateMovesTheStatesOnceEachWay) {
  const std::int64_t n = 400000;
  for (const auto& [master, bytes] :
       {std::pair{MasterFormat::kRemainder, 10 * n}, std::pair{MasterFormat::kFloat32, 12 * n}}) {
    const Moved moved =
        moved_for_offloading({{.num_elements = n}}, options(1.0, OffloadUpdate::kStream, master));
    EXPECT_EQ(moved.to_host, bytes);
    EXPECT_EQ(moved.to_device, bytes);
  }
}

TEST_P(Cost, HalfTheFractionMovesHalfTheBytes) {
  const std::int64_t n = 400000;
  const Moved moved = moved_for_offloading(
      {{.num_elements = n}}, options(0.5, OffloadUpdate::kHost, MasterFormat::kFloat32));
  EXPECT_EQ(moved.to_host, n);
  EXPECT_EQ(moved.to_device, n);
}

TEST_P(Cost, ManySmallParametersCrossTheLinkInFewCopies) {
  const std::vector<ParameterSpec> specs(500, {.num_elements = 40});
  for (const OffloadUpdate update : {OffloadUpdate::kHost, OffloadUpdate::kStream}) {
    const Moved moved = moved_for_offloading(specs, options(1.0, update, MasterFormat::kFloat32));
    EXPECT_LE(moved.num_copies, 2 * 2) << "one chunk, there and back";
    EXPECT_GT(moved.to_device, 0);
  }
}

TEST_P(Cost, StateBytesAreExactAndFollowTheFraction) {
  TestModel model(device_, std::vector<ParameterSpec>(10, {.num_elements = 1000}));
  for (int k = 0; k <= 10; ++k) {
    HybridDeviceOptimizer optimizer(
        device_, model.parameters(), {{}},
        options(k / 10.0, OffloadUpdate::kStream, MasterFormat::kFloat32));
    const PlacementReport report = optimizer.report();
    EXPECT_EQ(report.num_offloaded_elements, 1000 * k);
    EXPECT_EQ(report.host_state.value, 12 * 1000 * k);
    EXPECT_EQ(report.device_state.value, 12 * (10000 - 1000 * k));
  }
}

TEST_P(Cost, DeviceMemoryFallsByTheOffloadedStatesAndHostMemoryIsBounded) {
  const std::int64_t n = 4000000;
  TestModel model(device_, {{.num_elements = n}});
  const auto allocated_by = [&](double fraction, MasterFormat master) {
    const Bytes before = device_->memory().allocated;
    HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}},
                                    options(fraction, OffloadUpdate::kStream, master));
    std::int64_t host = 0;
    for (const auto& usage : device_->usage())
      if (usage.space == device::Space::kHost) host += usage.bytes.value;
    return std::pair{(device_->memory().allocated - before).value, host};
  };
  const auto none = allocated_by(0.0, MasterFormat::kFloat32);
  const auto half = allocated_by(0.5, MasterFormat::kFloat32);
  const auto all = allocated_by(1.0, MasterFormat::kFloat32);
  const std::int64_t states = 12 * n;
  const OptimizerOptions asked = options(1.0, OffloadUpdate::kStream, MasterFormat::kFloat32);
  const std::int64_t staging = asked.chunk_bytes.value * asked.ring_slots;
  EXPECT_NEAR(static_cast<double>(none.first - half.first),
              static_cast<double>(states / 2 - staging), 8192);
  EXPECT_NEAR(static_cast<double>(none.first - all.first), static_cast<double>(states - staging),
              8192);
  EXPECT_LE(static_cast<double>(all.second), 12.5 * static_cast<double>(n));
  EXPECT_LE(static_cast<double>(allocated_by(1.0, MasterFormat::kRemainder).second),
            10.5 * static_cast<double>(n));
}

TEST_P(Cost, StagingIsAtMostTheRing) {
  TestModel model(device_, {{.num_elements = 400000}});
  for (const OffloadUpdate update : {OffloadUpdate::kHost, OffloadUpdate::kStream}) {
    const OptimizerOptions asked = options(1.0, update, MasterFormat::kRemainder);
    HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}}, asked);
    EXPECT_LE(optimizer.report().device_staging, asked.chunk_bytes * asked.ring_slots);
    EXPECT_LE(optimizer.report().host_staging, asked.chunk_bytes * asked.ring_slots + 64_KiB);
  }
}

TEST_P(Cost, TheReportSaysWhereTheUpdateRuns) {
  TestModel model(device_, {{.num_elements = 400000}});
  const auto update_of = [&](double fraction, OffloadUpdate update) {
    return HybridDeviceOptimizer(device_, model.parameters(), {{}},
                                 options(fraction, update, MasterFormat::kFloat32))
        .report()
        .update;
  };
  EXPECT_EQ(update_of(0.0, OffloadUpdate::kHost), "none");
  EXPECT_EQ(update_of(1.0, OffloadUpdate::kHost), "host");
  EXPECT_EQ(update_of(1.0, OffloadUpdate::kStream), "stream");
  EXPECT_EQ(update_of(1.0, OffloadUpdate::kAuto).substr(0, 6), "auto (");
}

INSTANTIATE_TEST_SUITE_P(All, Cost, testing::ValuesIn(device::backends()), device::backend_name);

TEST(SteadyState, NothingIsAllocatedAfterTheFirstStep) {
  for (const OffloadUpdate update :
       {OffloadUpdate::kHost, OffloadUpdate::kStream, OffloadUpdate::kAuto}) {
    const auto device = device::open_emulated_device({});
    TestModel model(device, awkward_specs());
    OptimizerOptions options;
    options.offload_fraction = 0.7;
    options.update = update;
    options.overlap = true;
    options.chunk_bytes = 8_KiB;
    options.host_threads = 2;
    HybridDeviceOptimizer optimizer(device, model.parameters(), {{}, {}}, options);
    model.randomize_gradients(1);
    optimizer.step(model.gradients(), {});
    optimizer.synchronize();
    device::EmulatedFaults faults;
    faults.fail_allocate_after = 0;
    faults.fail_allocate_host_after = 0;
    device->set_faults(faults);
    for (int step = 0; step < 10; ++step) {
      std::vector<Gradient> gradients = model.gradients();
      if (step % 2 == 1) gradients[static_cast<std::size_t>(step)].data = nullptr;
      EXPECT_NO_THROW(optimizer.step(gradients, {}));
    }
    EXPECT_NO_THROW(optimizer.synchronize());
  }
}

TEST(SteadyState, MemoryThatCannotBePageLockedGivesTheSameBits) {
  OptimizerOptions options;
  options.offload_fraction = 0.7;
  options.chunk_bytes = 8_KiB;
  options.host_threads = 2;
  const Trace expected = train(device::open_emulated_device({}), awkward_specs(), options);
  for (int number = 0; number < 8; ++number) {
    const auto device = device::open_emulated_device({});
    device::EmulatedFaults faults;
    faults.fail_page_lock_after = number;
    device->set_faults(faults);
    expect_equal(train(device, awkward_specs(), options), expected);
  }
  options.pin_cpu_grads = false;
  options.pin_cpu_params = false;
  const auto device = device::open_emulated_device({});
  expect_equal(train(device, awkward_specs(), options), expected);
}

TEST(SteadyState, RunningOutWhileBuildingIsAnErrorThatNamesTheBytes) {
  device::DeviceOptions small;
  small.memory_limit = 1_MiB;
  const auto device = device::open_emulated_device(small);
  TestModel model(device, {{.num_elements = 100000}});
  OptimizerOptions options;
  EXPECT_THROW(HybridDeviceOptimizer(device, model.parameters(), {{}}, options), OutOfMemory);
  options.offload_fraction = 1.0;
  options.chunk_bytes = 64_KiB;
  options.host_threads = 1;
  EXPECT_NO_THROW(HybridDeviceOptimizer(device, model.parameters(), {{}}, options));
}

}  // namespace
}  // namespace spillway::optimizer
