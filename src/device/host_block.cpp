#include "device/host_block.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "spillway/core/error.h"
#include "spillway/device/host_memory.h"

namespace spillway::device {
namespace {

constexpr Bytes kPage = 4_KiB;
constexpr Bytes kHugePage = 2_MiB;
// Below this a chunk is locked faster than a thread starts.
constexpr Bytes kSmallestShare = 256_MiB;

std::span<std::byte> chunk_at(std::span<std::byte> block, std::size_t chunk, std::size_t index) {
  const std::size_t begin = index * chunk;
  return block.subspan(begin, std::min(chunk, block.size() - begin));
}

std::size_t num_chunks(std::span<std::byte> block, std::size_t chunk) {
  return (block.size() + chunk - 1) / chunk;
}

}  // namespace

HostBlock::HostBlock(Bytes bytes, const std::string& purpose)
    : bytes_(round_up(bytes.value, kPage.value)) {
  const Bytes available = available_host_memory();
  const auto refuse = [&](const char* why) {
    throw OutOfMemory(fmt::format("out of host memory: {} wanted for {}, {} available{}; offload "
                                  "less, or run on a host with more memory",
                                  to_string(bytes_), purpose, to_string(available), why),
                      bytes_, available);
  };
  // Overcommit would grant it, and the kernel would kill the process at the first touch.
  if (bytes_ > available) refuse("");
  void* const mapped = mmap(nullptr, bytes_.size(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) refuse(errno == ENOMEM ? " (mmap refused)" : " (mmap failed)");
  data_ = static_cast<std::byte*>(mapped);
  // Only advice: without huge pages everything works, a little slower.
  if (bytes_ >= kHugePage) (void)madvise(mapped, bytes_.size(), MADV_HUGEPAGE);
}

HostBlock::~HostBlock() { (void)munmap(data_, bytes_.size()); }

bool prefer_numa_node(std::span<std::byte> block, int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED; <numaif.h> would need libnuma
  constexpr int kMostNodes = 64;
  if (node < 0) return true;
  if (node >= kMostNodes) return false;
  const unsigned long mask = 1UL << static_cast<unsigned>(node);
  // The kernel reads one bit less than it is told.
  return syscall(SYS_mbind, block.data(), block.size(), kPreferred, &mask, kMostNodes + 1, 0) == 0;
}

void touch_pages(std::span<std::byte> block) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
  if (madvise(block.data(), block.size(), kPopulateWrite) == 0) return;
  for (std::size_t at = 0; at < block.size(); at += kPage.size()) {
    volatile std::byte* const page = &block[at];
    *page = *page;
  }
}

Bytes page_lock_chunk(Bytes bytes, Bytes limit, int num_threads) {
  const Bytes share((bytes.value + num_threads - 1) / num_threads);
  const Bytes wanted(round_up(std::max(share, kSmallestShare).value, kHugePage.value));
  return std::min(wanted, limit);
}

void lock_in_chunks(std::span<std::byte> block, Bytes chunk, int num_threads,
                    const PageLockCalls& calls) {
  const std::size_t total = num_chunks(block, chunk.size());
  std::vector<char> locked(total, 0);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t i = next++; i < total; i = next++) {
      try {
        calls.lock(chunk_at(block, chunk.size(), i));
        locked[i] = 1;
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error) error = std::current_exception();
        next = total;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t wanted = std::min<std::size_t>(static_cast<std::size_t>(num_threads), total);
    try {
      for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): fewer threads do as well
    }
    work();
  }
  if (!error) return;
  for (std::size_t i = 0; i < total; ++i)
    if (locked[i] != 0) calls.unlock(chunk_at(block, chunk.size(), i));
  std::rethrow_exception(error);
}

void unlock_in_chunks(std::span<std::byte> block, Bytes chunk,
                      const PageLockCalls& calls) noexcept {
  for (std::size_t i = 0; i < num_chunks(block, chunk.size()); ++i)
    calls.unlock(chunk_at(block, chunk.size(), i));
}

}  // namespace spillway::device
