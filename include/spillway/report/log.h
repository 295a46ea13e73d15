// The program's log.
#pragma once

#include <memory>

#include "spillway/report/console.h"

namespace spillway::report {

/// Sends spdlog's default logger to `console`, warnings in yellow and errors in red, so that log
/// lines and the progress bar do not disturb each other. The library itself never calls this: a
/// program that embeds it keeps its own logging.
void log_to(std::shared_ptr<Console> console);

}  // namespace spillway::report
