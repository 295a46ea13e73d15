// Words of a shell command or script, without a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway::planner {

/// Splits `text` as a shell would: blanks, quotes, backslashes, comments, line continuations.
/// Variables that the text itself assigns plainly ("TP=2", "ARGS=(a b)", "ARGS+=(c)") are put in
/// their places; what is not assigned stays as it is ("$TP"). Nothing is executed.
[[nodiscard]] std::vector<std::string> shell_words(std::string_view text);

}  // namespace spillway::planner
