#include "training/io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "spillway/core/error.h"

namespace spillway::training {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw ConfigError(
      fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(errno)));
}

}  // namespace

MappedFile map_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open");
  const std::shared_ptr<void> closed(nullptr, [descriptor](void*) { ::close(descriptor); });
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail(path, "read the size of");
  if (!S_ISREG(status.st_mode))
    throw ConfigError(fmt::format("{} is not a regular file", path.string()));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) fail(path, "map");
  return {std::shared_ptr<void>(data, [size](void* mapped) { ::munmap(mapped, size); }),
          {static_cast<const std::byte*>(data), size}};
}

}  // namespace spillway::training
