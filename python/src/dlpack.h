// The part of the DLPack protocol (version 0) that hands memory to a framework without copying.
#pragma once

#include <cstdint>

namespace spillway::python::dlpack {

// Layout and names are those of the protocol, dlpack.h of https://dmlc.github.io/dlpack.
struct DLDevice {
  std::int32_t device_type;  ///< 1: host, 2: CUDA
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;  ///< 1: unsigned integer
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< nullptr: contiguous
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

inline constexpr const char* kFresh = "dltensor";  ///< a capsule that nobody has taken over yet

}  // namespace spillway::python::dlpack
