// Arrays for the host benchmarks: huge pages where the system gives them, touched first by the
// threads that work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "optimizer/kernels/kernels.h"
#include "spillway/optimizer/host_pool.h"

namespace spillway::optimizer::bench {

/// What one element costs: the bytes that an update must read and write.
struct NamedFormat {
  std::string name;
  kernels::UpdateFormat format;
  double bytes_per_element = 0.0;
};

/// The formats that are measured; the first is the one that the in-place ceiling is counted for.
[[nodiscard]] std::vector<NamedFormat> measured_formats();

/// Room for `num_elements` of every array that any format needs; each is used by all formats in
/// turn, so that all are measured over the same memory.
class HostArrays {
 public:
  HostArrays(std::int64_t num_elements, HostPool& pool);

  [[nodiscard]] std::int64_t num_elements() const { return num_elements_; }
  [[nodiscard]] kernels::UpdateItem item() const;
  [[nodiscard]] float* master() const { return wide(0); }
  [[nodiscard]] float* exp_avg() const { return wide(1); }
  [[nodiscard]] float* exp_avg_sq() const { return wide(2); }
  [[nodiscard]] std::uint16_t* gradient() const { return narrow(3); }
  [[nodiscard]] std::uint16_t* parameter() const { return narrow(4); }
  /// Sets every array to values that training could have: bits of one format are not values of
  /// another.
  void reset(const kernels::UpdateFormat& format, HostPool& pool);

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  [[nodiscard]] float* wide(std::size_t i) const {
    return reinterpret_cast<float*>(data_[i].get());
  }
  [[nodiscard]] std::uint16_t* narrow(std::size_t i) const {
    return reinterpret_cast<std::uint16_t*>(data_[i].get());
  }

  std::int64_t num_elements_;
  std::vector<std::unique_ptr<std::byte[], Free>> data_;
};

/// Scalars of an ordinary step.
[[nodiscard]] kernels::StepScalars ordinary_step();

/// One update of all elements by the pool.
void update(const kernels::HostKernels& kernels, const kernels::UpdateFormat& format,
            const HostArrays& arrays, kernels::ParameterStore store, HostPool& pool);

}  // namespace spillway::optimizer::bench
