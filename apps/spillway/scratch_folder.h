// A folder for files that nobody needs afterwards.
#pragma once

#include <filesystem>
#include <string>

namespace spillway::cli {

/// Made in the system's folder for temporary files; removed with all it holds when it goes.
class ScratchFolder {
 public:
  /// Throws Error if it cannot be made.
  explicit ScratchFolder(const std::string& name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace spillway::cli
