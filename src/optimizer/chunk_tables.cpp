#include "optimizer/chunk_tables.h"

namespace spillway::optimizer {
namespace {

std::vector<std::size_t> place(const std::vector<StateBlock>& chunks, std::size_t item_bytes) {
  std::vector<std::size_t> begin{0};
  for (const StateBlock& chunk : chunks)
    begin.push_back(begin.back() + chunk.segments.size() * item_bytes);
  return begin;
}

}  // namespace

ChunkTables::ChunkTables(device::Device& device, const std::vector<StateBlock>& chunks,
                         std::size_t item_bytes)
    : device_(device),
      begin_(place(chunks, item_bytes)),
      host_(device.allocate_host(Bytes(static_cast<std::int64_t>(begin_.back())),
                                 "optimizer chunk tables")) {
  if (!host_.page_locked()) mirror_ = device.allocate(host_.bytes(), "optimizer chunk tables");
}

std::span<std::byte> ChunkTables::write(int chunk) const {
  const auto index = static_cast<std::size_t>(chunk);
  return host_.span().subspan(begin_[index], begin_[index + 1] - begin_[index]);
}

const std::byte* ChunkTables::publish(int chunk, device::Stream& stream) {
  const std::span<std::byte> table = write(chunk);
  if (!mirror_) return table.data();
  const std::span<std::byte> copy =
      mirror_.span().subspan(begin_[static_cast<std::size_t>(chunk)], table.size());
  device_.copy(copy, table, device::Direction::kHostToDevice, stream);
  return copy.data();
}

}  // namespace spillway::optimizer
