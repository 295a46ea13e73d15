// The devices on which every contract is tried: all that this build and this machine have.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "spillway/device/device.h"

namespace spillway::device {

struct Backend {
  std::string name;
  DeviceOptions::Choice choice = DeviceOptions::Choice::kEmulated;
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

inline std::vector<Backend> backends() {
  std::vector<Backend> result{{"Emulated", DeviceOptions::Choice::kEmulated}};
  if (cuda_available()) result.push_back({"Cuda", DeviceOptions::Choice::kCuda});
  return result;
}

inline std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

class DeviceContract : public testing::TestWithParam<Backend> {
 protected:
  [[nodiscard]] static std::shared_ptr<Device> open(DeviceOptions options = {}) {
    options.kind = GetParam().choice;
    return open_device(options);
  }
};

inline void fill_host(const Buffer& buffer, int value) {
  std::memset(buffer.data(), value, buffer.span().size());
}

/// True if every byte of `bytes`, which is not empty, is `value`.
inline bool all_equal(std::span<const std::byte> bytes, int value) {
  // Equal to its own shift by one: one call instead of a loop that a sanitizer slows down.
  return bytes.front() == static_cast<std::byte>(value) &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace spillway::device
