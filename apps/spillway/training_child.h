// A training in a process of its own, for the subcommands that compare runs.
#pragma once

#include <filesystem>
#include <string>

#include "spillway/config/config_container.h"
#include "spillway/report/console.h"
#include "training/verify/criteria.h"

namespace spillway::cli {

/// Runs `spillway train` on `config` in a child process, its files under `folder` with the stem
/// `name`, its progress on `console` under `title`. A run that fails is a status and its errors.
[[nodiscard]] training::VerifiedRun run_training(config::ConfigContainer config,
                                                 const std::string& name, const std::string& title,
                                                 const std::filesystem::path& folder,
                                                 report::Console& console);

}  // namespace spillway::cli
