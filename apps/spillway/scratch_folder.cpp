#include "scratch_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "spillway/core/error.h"

namespace spillway::cli {

ScratchFolder::ScratchFolder(const std::string& name) {
  std::string pattern = (std::filesystem::temp_directory_path() / (name + "_XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw Error(fmt::format("no temporary folder {}: {}; set TMPDIR to one that can be written",
                            pattern, std::strerror(errno)));
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace spillway::cli
