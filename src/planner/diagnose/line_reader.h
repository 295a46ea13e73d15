// Cuts a log into lines, whatever bytes it has and however long they are.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::planner {

/// Lines end at \n or \r (progress bars). Terminal control sequences and NULs (UTF-16) are taken
/// out. A line longer than kMaxLine comes in pieces that overlap by kOverlap, so that no message is
/// cut through.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = 64 << 10;
  static constexpr std::size_t kOverlap = 1 << 10;

  explicit LineReader(std::istream& in);

  /// The next line, valid until the next call; empty at the end.
  [[nodiscard]] std::optional<std::string_view> next();

  /// Number of the line that next() gave, counted from 1 by \n.
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }
  [[nodiscard]] std::int64_t num_bytes() const { return num_bytes_; }
  /// True if more than a tenth of the first 64 KiB are bytes that no text has, or if the file is
  /// compressed.
  [[nodiscard]] bool looks_binary() const;

 private:
  enum class Escape : unsigned char { kNone, kStarted, kSequence, kString };

  bool refill();
  bool take(char c);  ///< true if c ends the line
  [[nodiscard]] bool swallowed_by_escape(char c);

  std::istream& in_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  std::string line_;
  std::int64_t newlines_ = 0;
  std::int64_t line_number_ = 0;
  std::int64_t num_bytes_ = 0;
  std::int64_t num_odd_ = 0;
  bool compressed_ = false;
  bool clear_line_ = true;
  Escape escape_ = Escape::kNone;
};

/// The rank in a line's prefix: "[rank3]:", "[default3]:", "[1,3]<stderr>:", "3: ", "[Rank 3]",
/// "rank=3"; empty if there is none.
[[nodiscard]] std::optional<int> rank_of(std::string_view line);

/// `text` as printable ASCII, at most `max` characters around position `focus`.
[[nodiscard]] std::string printable(std::string_view text, std::size_t focus, std::size_t max);

}  // namespace spillway::planner
