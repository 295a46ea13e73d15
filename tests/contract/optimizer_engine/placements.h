// The ways in which states can be placed and updated, for suites that hold in all of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "contract/optimizer_engine/test_model.h"

namespace spillway::optimizer {

struct Placement {
  std::string name;
  device::Backend backend;
  double fraction = 0.0;
  OffloadUpdate update = OffloadUpdate::kStream;
  bool overlap = false;
  MasterFormat master = MasterFormat::kFloat32;

  [[nodiscard]] OptimizerOptions options() const {
    OptimizerOptions result;
    result.offload_fraction = fraction;
    result.update = update;
    result.overlap = overlap;
    result.master = master;
    result.chunk_bytes = 8_KiB;
    result.host_threads = 2;
    result.clip_grad = 0.0;
    return result;
  }
};

inline void PrintTo(const Placement& placement, std::ostream* out) { *out << placement.name; }

inline std::vector<Placement> placements() {
  std::vector<Placement> result;
  for (const device::Backend& backend : device::backends()) {
    const auto add = [&](const char* name, double fraction, OffloadUpdate update, bool overlap,
                         MasterFormat master) {
      result.push_back(
          {std::string(backend.name).append(name), backend, fraction, update, overlap, master});
    };
    add("Resident", 0.0, OffloadUpdate::kStream, false, MasterFormat::kFloat32);
    add("ResidentRemainder", 0.0, OffloadUpdate::kStream, false, MasterFormat::kRemainder);
    add("Host", 1.0, OffloadUpdate::kHost, false, MasterFormat::kFloat32);
    add("HostOverlapRemainder", 1.0, OffloadUpdate::kHost, true, MasterFormat::kRemainder);
    add("Stream", 1.0, OffloadUpdate::kStream, false, MasterFormat::kFloat32);
    add("StreamOverlapRemainder", 1.0, OffloadUpdate::kStream, true, MasterFormat::kRemainder);
    add("HalfAutoOverlap", 0.5, OffloadUpdate::kAuto, true, MasterFormat::kFloat32);
  }
  return result;
}

inline std::string placement_name(const testing::TestParamInfo<Placement>& info) {
  return info.param.name;
}

class EveryPlacement : public testing::TestWithParam<Placement> {
 protected:
  EveryPlacement() : device_(open(GetParam().backend)) {}

  [[nodiscard]] OptimizerOptions options() const { return GetParam().options(); }

  std::shared_ptr<device::Device> device_;
};

}  // namespace spillway::optimizer
