// A file's bytes, mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace spillway::training {

struct MappedFile {
  std::shared_ptr<void> owner;  ///< unmaps when the last copy goes
  std::span<const std::byte> bytes;
};

/// Maps a regular file read-only. Throws ConfigError with the system's reason.
[[nodiscard]] MappedFile map_file(const std::filesystem::path& path);

}  // namespace spillway::training
