// Gathering and scattering many arrays within device memory at the cost of one launch.
#pragma once

#include <cstdint>
#include <span>

namespace spillway::optimizer::kernels {

/// One array to be moved. Addresses and size are multiples of 2 bytes.
struct MoveItem {
  void* dst = nullptr;
  const void* src = nullptr;
  std::int64_t num_bytes = 0;
  std::int64_t first_piece = 0;  ///< see number_pieces()
};

namespace cuda {

/// Sets `first_piece` of each item and returns the number of pieces, by which a launch shares its
/// work out.
std::int64_t number_pieces(std::span<MoveItem> items);

/// Moves all items; `items` (num_items) is device-readable and stays valid until `stream`, a
/// cudaStream_t, has passed. Throws DeviceError if the launch fails.
void move(const MoveItem* items, std::int64_t num_items, std::int64_t num_pieces, void* stream);

}  // namespace cuda
}  // namespace spillway::optimizer::kernels
