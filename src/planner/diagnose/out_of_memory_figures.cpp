// Amounts in out-of-memory messages. PyTorch's wording has changed several times:
//   1.0  (GPU 0; 7.93 GiB total capacity; 6.68 GiB already allocated; 8.06 MiB free; 299 MiB
//   cached) 1.4  (...; 14.80 GiB reserved in total by PyTorch) 2.1  GPU 0 has a total capacty
//   of 79.15 GiB of which 15.31 MiB is free. 2.2  GPU 0 has a total capacity of ...
#include <charconv>

#include "planner/diagnose/figures.h"

namespace spillway::planner {
namespace {

std::optional<double> unit_factor(std::string_view unit) {
  if (unit.starts_with("bytes") || unit == "b") return 1.0;
  if (unit.empty()) return std::nullopt;
  const bool binary = unit.size() > 1 && unit[1] == 'i';
  const double step = binary ? 1024.0 : 1000.0;
  switch (unit[0]) {
    case 'k':
      return step;
    case 'm':
      return step * step;
    case 'g':
      return step * step * step;
    case 't':
      return step * step * step * step;
    default:
      return std::nullopt;
  }
}

bool is_number(char c) { return (c >= '0' && c <= '9') || c == '.'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// "20.00 mib" at `at`.
std::optional<Bytes> amount_at(std::string_view line, std::size_t at) {
  while (at < line.size() && line[at] == ' ') ++at;
  double value = 0.0;
  const char* const begin = line.data() + at;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), value);
  if (error != std::errc()) return std::nullopt;
  at = static_cast<std::size_t>(end - line.data());
  while (at < line.size() && line[at] == ' ') ++at;
  const std::size_t unit_from = at;
  while (at < line.size() && is_letter(line[at])) ++at;
  const auto factor = unit_factor(line.substr(unit_from, at - unit_from));
  if (!factor || value < 0 || value * *factor > 9e17) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(value * *factor));
}

std::optional<Bytes> amount_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  return at == std::string_view::npos ? std::nullopt : amount_at(line, at + label.size());
}

/// "14.56 gib already allocated": the amount that ends where the label starts.
std::optional<Bytes> amount_before(std::string_view line, std::string_view label) {
  std::size_t at = line.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  while (at > 0 && line[at - 1] == ' ') --at;
  while (at > 0 && is_letter(line[at - 1])) --at;
  while (at > 0 && line[at - 1] == ' ') --at;
  while (at > 0 && is_number(line[at - 1])) --at;
  return amount_at(line, at);
}

void keep_first(std::optional<Bytes>& kept, std::optional<Bytes> value) {
  if (!kept) kept = value;
}

}  // namespace

bool read_out_of_memory(std::string_view line, OutOfMemoryFigures& figures) {
  const auto wanted = amount_after(line, "tried to allocate");
  if (!wanted || figures.wanted) return wanted.has_value();
  figures.wanted = wanted;
  keep_first(figures.total, amount_after(line, "total capacity of"));
  keep_first(figures.total, amount_after(line, "total capacty of"));
  keep_first(figures.total, amount_before(line, "total capacity"));
  keep_first(figures.free, amount_before(line, "is free"));
  keep_first(figures.free, amount_before(line, "free;"));
  keep_first(figures.allocated, amount_before(line, "is allocated by pytorch"));
  keep_first(figures.allocated, amount_before(line, "already allocated"));
  keep_first(figures.unallocated, amount_before(line, "is reserved by pytorch but unallocated"));
  keep_first(figures.unallocated, amount_before(line, "cached"));
  const auto reserved = amount_before(line, "reserved in total");
  if (reserved && figures.allocated) {
    keep_first(figures.unallocated, *reserved - *figures.allocated);
  }
  keep_first(figures.in_process, amount_after(line, "this process has"));
  return true;
}

bool names_another_process(std::string_view line) {
  for (std::size_t at = line.find("process "); at != std::string_view::npos;
       at = line.find("process ", at + 1)) {
    std::size_t after = at + 8;
    const std::size_t digits_from = after;
    while (after < line.size() && line[after] >= '0' && line[after] <= '9') ++after;
    if (after == digits_from || !line.substr(after).starts_with(" has ")) continue;
    const auto amount = amount_at(line, after + 5);
    if (amount && *amount > 1_GiB) return true;
  }
  return false;
}

}  // namespace spillway::planner
