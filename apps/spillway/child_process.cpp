#include "child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "spillway/core/error.h"

extern char** environ;

namespace spillway::cli {
namespace {

/// posix_spawn's two records, freed when done.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

pid_t start(const std::filesystem::path& program, const std::vector<std::string>& arguments,
            const std::filesystem::path& output, const std::filesystem::path& errors) {
  SpawnPlan plan;
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&plan.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.files, STDOUT_FILENO, output.c_str(), kNew, 0600);
  posix_spawn_file_actions_addopen(&plan.files, STDERR_FILENO, errors.c_str(), kNew, 0600);
  posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, program.c_str(), &plan.files, &plan.attributes, words.data(), environ);
  if (failed != 0) {
    throw Error(fmt::format("{} cannot be started: {}", program.string(), std::strerror(failed)));
  }
  return process;
}

}  // namespace

int run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
              const std::filesystem::path& output, const std::filesystem::path& errors,
              const std::function<bool()>& poll) {
  const pid_t process = start(program, arguments, output, errors);
  bool asked_to_end = false;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(process, &status, WNOHANG);
    if (ended == process) break;
    if (ended < 0 && errno != EINTR) {
      throw Error(fmt::format("lost the process {}: {}", process, std::strerror(errno)));
    }
    if (!poll() && !asked_to_end) {
      ::kill(process, SIGINT);
      asked_to_end = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace spillway::cli
