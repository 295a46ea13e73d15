#include "device/host_allocation.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <string>

#include "device/checks.h"
#include "spillway/core/error.h"

namespace spillway::device {
namespace {

// Page-locking takes up to half a second a GiB: from here on people would think that it hangs.
constexpr Bytes kWorthSaying = 4_GiB;

/// Locks `block`; empty, after one warning a device, if the system refuses.
std::optional<Bytes> try_to_lock(HostContext& context, std::span<std::byte> block,
                                 std::string_view purpose) {
  const Bytes bytes(static_cast<std::int64_t>(block.size()));
  const Bytes chunk = page_lock_chunk(bytes, context.chunk_limit, context.num_threads);
  if (bytes >= kWorthSaying)
    spdlog::info("page-locking {} for {} with {} threads", to_string(bytes), purpose,
                 context.num_threads);
  try {
    lock_in_chunks(block, chunk, context.num_threads, context.calls);
  } catch (const Error& error) {
    if (!context.warned.exchange(true))
      spdlog::warn(
          "could not page-lock {} for {} ({}); going on with pageable memory, which copies several "
          "times slower; raise the limit of locked memory (ulimit -l) or free host memory",
          to_string(bytes), purpose, error.what());
    return std::nullopt;
  }
  return chunk;
}

}  // namespace

Buffer allocate_host_memory(const std::shared_ptr<HostContext>& context, Bytes bytes,
                            std::string_view purpose) {
  check_size(bytes, purpose);
  if (bytes == Bytes()) return {};
  const std::string name(purpose);
  const auto block = std::make_shared<HostBlock>(bytes, name);
  (void)prefer_numa_node(block->span(), context->numa_node);  // a wish: memory elsewhere works too
  context->ledger->take(Space::kHost, bytes, name);
  const std::optional<Bytes> chunk = try_to_lock(*context, block->span(), name);
  if (chunk) context->registry.add(block->span(), *chunk);
  auto release = [context, block, chunk, bytes, name] {
    if (chunk) {
      context->registry.remove(block->data());
      unlock_in_chunks(block->span(), *chunk, context->calls);
    }
    context->ledger->give_back(Space::kHost, bytes, name);
  };
  return {block->data(), bytes, Space::kHost, chunk.has_value(), std::move(release)};
}

}  // namespace spillway::device
