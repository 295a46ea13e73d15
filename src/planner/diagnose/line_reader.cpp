#include "planner/diagnose/line_reader.h"

#include <algorithm>
#include <cctype>

namespace spillway::planner {
namespace {

constexpr std::int64_t kSniffed = 64 << 10;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Digits at `at`, at most six, as a number.
std::optional<int> number_at(std::string_view text, std::size_t& at) {
  const std::size_t start = at;
  int value = 0;
  while (at < text.size() && is_digit(text[at]) && at - start < 6) {
    value = value * 10 + (text[at++] - '0');
  }
  if (at == start || (at < text.size() && is_digit(text[at]))) return std::nullopt;
  return value;
}

std::optional<int> number_after(std::string_view line, std::string_view lead) {
  const std::size_t found = line.find(lead);
  if (found == std::string_view::npos) return std::nullopt;
  std::size_t at = found + lead.size();
  return number_at(line, at);
}

}  // namespace

LineReader::LineReader(std::istream& in) : in_(in), buffer_(kMaxLine) {}

bool LineReader::refill() {
  if (!in_) return false;
  in_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  filled_ = static_cast<std::size_t>(in_.gcount());
  at_ = 0;
  if (num_bytes_ == 0 && filled_ >= 4) {
    const std::string_view head(buffer_.data(), 4);
    compressed_ = head.starts_with("\x1f\x8b") || head.starts_with("BZh") ||
                  head.starts_with(
                      "\xfd"
                      "7zX") ||
                  head.starts_with("\x28\xb5\x2f\xfd") || head.starts_with("PK\x03\x04");
  }
  num_bytes_ += static_cast<std::int64_t>(filled_);
  return filled_ > 0;
}

bool LineReader::looks_binary() const {
  const auto sniffed = std::min(num_bytes_, kSniffed);
  return compressed_ || (sniffed > 0 && num_odd_ * 10 > sniffed);
}

bool LineReader::swallowed_by_escape(char c) {
  const auto byte = static_cast<unsigned char>(c);
  switch (escape_) {
    case Escape::kNone:
      if (byte != 0x1b) return false;
      escape_ = Escape::kStarted;
      return true;
    case Escape::kStarted:
      escape_ = c == '[' ? Escape::kSequence : c == ']' ? Escape::kString : Escape::kNone;
      return true;
    case Escape::kSequence:
      if (byte >= 0x40 && byte <= 0x7e) escape_ = Escape::kNone;
      return byte >= 0x20;
    case Escape::kString:
      if (byte == 0x07 || byte == 0x1b) escape_ = byte == 0x1b ? Escape::kStarted : Escape::kNone;
      return byte != '\n';
  }
  return false;
}

bool LineReader::take(char c) {
  if (c == '\n') ++newlines_;
  if (swallowed_by_escape(c)) return false;
  if (c == '\n' || c == '\r') {
    escape_ = Escape::kNone;
    return true;
  }
  const auto byte = static_cast<unsigned char>(c);
  if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
    if (num_bytes_ <= kSniffed) ++num_odd_;
    if (byte != 0) line_.push_back(' ');
    return false;
  }
  line_.push_back(c);
  return false;
}

std::optional<std::string_view> LineReader::next() {
  if (clear_line_) {
    line_.clear();
  } else {
    line_.erase(0, line_.size() - kOverlap);
  }
  clear_line_ = true;
  line_number_ = newlines_ + 1;
  bool any = false;
  while (at_ < filled_ || refill()) {
    any = true;
    if (take(buffer_[at_++])) return line_;
    if (line_.size() >= kMaxLine) {
      clear_line_ = false;
      return line_;
    }
  }
  if (!any) return std::nullopt;
  return line_;
}

std::optional<int> rank_of(std::string_view line) {
  line = line.substr(0, 200);
  const auto start = line.find_first_not_of(' ');
  if (start == std::string_view::npos) return std::nullopt;
  std::size_t at = start;
  if (const auto srun = number_at(line, at)) {
    if (line.substr(at).starts_with(": ")) return srun;
  }
  at = start + 1;
  if (line[start] == '[') {
    const auto first = number_at(line, at);
    if (first && line.substr(at).starts_with("]:")) return first;
    if (first && at < line.size() && line[at] == ',') {
      ++at;
      const auto second = number_at(line, at);
      if (second && line.substr(at).starts_with("]<std")) return second;
    }
  }
  for (const auto lead : {"[rank", "[Rank ", "[default", "rank=", "rank: ", "Rank "}) {
    if (const auto rank = number_after(line, lead)) return rank;
  }
  return std::nullopt;
}

std::string printable(std::string_view text, std::size_t focus, std::size_t max) {
  std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return {};
  if (focus > start + max / 2 && text.size() - start > max) {
    start = std::min(focus - max / 4, text.size() - max);
  }
  std::string out = start > text.find_first_not_of(" \t") ? "..." : "";
  for (const char c : text.substr(start, max)) {
    out.push_back(c >= 0x20 && c < 0x7f ? c : c == '\t' ? ' ' : '?');
  }
  if (start + max < text.size()) out += "...";
  return out;
}

}  // namespace spillway::planner
