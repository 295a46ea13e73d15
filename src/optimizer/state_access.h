// Reading and writing states wherever they are, as fp32. For checkpoints and tests: it blocks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "optimizer/chunk_pipeline.h"
#include "optimizer/moment_codec.h"
#include "optimizer/parameter_set.h"
#include "optimizer/resident_part.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

/// Both parts are idle while it is used, and nobody touches the parameters. Not thread-safe.
class StateAccess {
 public:
  /// `pipeline` may be null.
  StateAccess(device::Device& device, const ParameterSet& parameters, const ResidentPart& resident,
              const ChunkPipeline* pipeline);

  /// `parameter` is the unique one's index. Throw UsageError for a wrong size and for a state that
  /// the format does not have. Writing a master writes the parameter with it.
  void read(int parameter, StateKind kind, std::span<float> out) const;
  void write(int parameter, StateKind kind, std::span<const float> in);

  /// Makes all masters from the parameters' values.
  void reload_masters();

 private:
  /// A part of a segment, small enough to be staged, and where its block's states are.
  struct Place {
    const StateBlock* block = nullptr;
    Segment segment;
    std::byte* states = nullptr;
    bool on_device = false;
  };
  /// One array of a segment.
  struct Array {
    std::byte* data = nullptr;
    std::size_t num_bytes = 0;
    bool on_device = false;
  };
  struct MomentArrays {
    kernels::MomentFormat format = kernels::MomentFormat::kFloat32;
    MomentSign sign = MomentSign::kSigned;
    Array values;
    Array scales;  // kBlock8 only
  };

  void add_places(const StateBlock& block, std::byte* states, bool on_device);
  void check(int parameter, StateKind kind, std::size_t size) const;
  [[nodiscard]] Array parameter_array(const Place& place) const;
  [[nodiscard]] static Array master_array(const Place& place);
  [[nodiscard]] static MomentArrays moment_arrays(const Place& place, StateKind kind);

  void read_master(const Place& place, std::span<float> out) const;
  void write_master(const Place& place, std::span<const float> in);
  void read_moments(const Place& place, StateKind kind, std::span<float> out) const;
  void write_moments(const Place& place, StateKind kind, std::span<const float> in);

  [[nodiscard]] std::vector<std::byte> load(const Array& array) const;
  void store(const Array& array, const void* bytes);

  device::Device& device_;
  const ParameterSet& parameters_;
  std::vector<std::vector<Place>> places_;  // by unique parameter
};

}  // namespace spillway::optimizer
