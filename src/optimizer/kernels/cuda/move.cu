#include "optimizer/kernels/cuda/move.h"

#include <cuda_runtime_api.h>

#include "optimizer/kernels/cuda/launch.cuh"
#include "optimizer/kernels/cuda/table_search.cuh"

namespace spillway::optimizer::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPieceBytes = 16384;

template <typename Word>
__device__ void move_words(void* dst, const void* src, std::int64_t num_bytes) {
  const std::int64_t num_words = num_bytes / static_cast<std::int64_t>(sizeof(Word));
  for (std::int64_t i = threadIdx.x; i < num_words; i += kThreads)
    static_cast<Word*>(dst)[i] = static_cast<const Word*>(src)[i];
}

__global__ void __launch_bounds__(kThreads)
    move_kernel(const MoveItem* items, std::int64_t num_items, std::int64_t num_pieces) {
  for (std::int64_t piece = blockIdx.x; piece < num_pieces; piece += gridDim.x) {
    const std::int64_t entry = find_entry(
        items, num_items, piece, [](const MoveItem& candidate) { return candidate.first_piece; });
    const MoveItem item = items[entry];
    const std::int64_t begin = (piece - item.first_piece) * kPieceBytes;
    const std::int64_t rest = item.num_bytes - begin;
    const std::int64_t count = rest < kPieceBytes ? rest : kPieceBytes;
    char* const dst = static_cast<char*>(item.dst) + begin;
    const char* const src = static_cast<const char*>(item.src) + begin;
    const auto bits = reinterpret_cast<std::uintptr_t>(dst) |
                      reinterpret_cast<std::uintptr_t>(src) | static_cast<std::uintptr_t>(count);
    if (bits % sizeof(uint4) == 0) {
      move_words<uint4>(dst, src, count);
    } else {
      move_words<std::uint16_t>(dst, src, count);
    }
  }
}

}  // namespace

std::int64_t number_pieces(std::span<MoveItem> items) {
  std::int64_t num_pieces = 0;
  for (MoveItem& item : items) {
    item.first_piece = num_pieces;
    num_pieces += (item.num_bytes + kPieceBytes - 1) / kPieceBytes;
  }
  return num_pieces;
}

void move(const MoveItem* items, std::int64_t num_items, std::int64_t num_pieces, void* stream) {
  if (num_pieces == 0) return;
  const unsigned blocks = resident_blocks(move_kernel, kThreads, num_pieces);
  move_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(items, num_items,
                                                                          num_pieces);
  SPILLWAY_CUDA_CHECK(cudaGetLastError());
}

}  // namespace spillway::optimizer::kernels::cuda
