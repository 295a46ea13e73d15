#include "planner/diagnose/phrase.h"

#include <algorithm>

namespace spillway::planner {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }

bool starts_word(std::string_view line, std::size_t at, char first) {
  return at == 0 || !is_word(first) || !is_word(line[at - 1]);
}

bool ends_word(std::string_view line, std::size_t end, char last) {
  return end >= line.size() || !is_word(last) || !is_word(line[end]);
}

}  // namespace

std::string normalised(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\0') continue;
    if (c == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\'')) continue;
    if (c == '"' || c == '`') c = '\'';
    if (is_blank(c)) {
      if (out.empty() || out.back() != ' ') out.push_back(' ');
      continue;
    }
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

Phrase::Phrase(std::string_view pattern) {
  const std::string text = normalised(pattern);
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t gap = std::min(text.find(" ... ", start), text.size());
    pieces_.push_back(text.substr(start, gap - start));
    if (gap == text.size()) break;
    start = gap + 5;
  }
}

std::size_t Phrase::find_in(std::string_view line) const {
  const std::string& head = pieces_.front();
  std::size_t from = 0;
  while (true) {
    const std::size_t start = line.find(head, from);
    if (start == std::string_view::npos) return start;
    from = start + 1;
    if (!starts_word(line, start, head.front())) continue;
    std::size_t end = start + head.size();
    bool found = true;
    for (std::size_t i = 1; i < pieces_.size() && found; ++i) {
      const std::size_t next = line.find(pieces_[i], end);
      found = next != std::string_view::npos;
      if (found) end = next + pieces_[i].size();
    }
    if (!found) return std::string_view::npos;
    if (ends_word(line, end, pieces_.back().back())) return start;
  }
}

const std::string& Phrase::anchor() const {
  return *std::max_element(pieces_.begin(), pieces_.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
}

}  // namespace spillway::planner
