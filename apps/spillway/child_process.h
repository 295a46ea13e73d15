// Another run of this program, in a process of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace spillway::cli {

/// Runs `program` with `arguments`, its output and errors going to files, and waits for it. `poll`
/// is called every 100 ms; once it returns false the process is asked to end (SIGINT). In a process
/// group of its own, so that a terminal's Ctrl-C reaches it only through `poll`. Returns the exit
/// status, 128 + the signal if one ended it. Throws Error if it cannot be started.
[[nodiscard]] int run_child(const std::filesystem::path& program,
                            const std::vector<std::string>& arguments,
                            const std::filesystem::path& output,
                            const std::filesystem::path& errors, const std::function<bool()>& poll);

}  // namespace spillway::cli
