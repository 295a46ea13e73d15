#include "planner/diagnose/literal_set.h"

#include <deque>

namespace spillway::planner {

LiteralSet::LiteralSet(const std::vector<std::string>& literals) : seen_in_(literals.size(), 0) {
  for (const auto& literal : literals) {
    for (const char c : literal) {
      auto& symbol = symbol_of_[static_cast<std::uint8_t>(c)];
      if (symbol == 0) symbol = static_cast<std::uint8_t>(num_symbols_++);
    }
  }
  add_node();
  for (std::size_t i = 0; i < literals.size(); ++i) add(literals[i], static_cast<int>(i));
  link();
}

int LiteralSet::add_node() {
  next_.resize(next_.size() + static_cast<std::size_t>(num_symbols_), -1);
  fallback_.push_back(kRoot);
  output_link_.push_back(-1);
  ending_.emplace_back();
  return static_cast<int>(ending_.size()) - 1;
}

void LiteralSet::add(const std::string& literal, int index) {
  int node = kRoot;
  for (const char c : literal) {
    const auto symbol = symbol_of_[static_cast<std::uint8_t>(c)];
    if (next(node, symbol) < 0) {
      const int added = add_node();
      next(node, symbol) = added;
    }
    node = next(node, symbol);
  }
  ending_[static_cast<std::size_t>(node)].push_back(index);
}

void LiteralSet::link() {
  std::deque<int> queue;
  for (int symbol = 0; symbol < num_symbols_; ++symbol) {
    int& child = next(kRoot, static_cast<std::uint8_t>(symbol));
    if (child < 0) {
      child = kRoot;
    } else {
      queue.push_back(child);
    }
  }
  while (!queue.empty()) {
    const int node = queue.front();
    queue.pop_front();
    const int fallback = fallback_[static_cast<std::size_t>(node)];
    output_link_[static_cast<std::size_t>(node)] =
        ending_[static_cast<std::size_t>(fallback)].empty()
            ? output_link_[static_cast<std::size_t>(fallback)]
            : fallback;
    for (int s = 0; s < num_symbols_; ++s) {
      const auto symbol = static_cast<std::uint8_t>(s);
      int& child = next(node, symbol);
      if (child < 0) {
        child = next(fallback, symbol);
      } else {
        fallback_[static_cast<std::size_t>(child)] = next(fallback, symbol);
        queue.push_back(child);
      }
    }
  }
}

void LiteralSet::find_in(std::string_view line, std::vector<int>& found) {
  ++line_number_;
  int node = kRoot;
  for (const char c : line) {
    node = next(node, symbol_of_[static_cast<std::uint8_t>(c)]);
    for (int hit = node; hit >= 0; hit = output_link_[static_cast<std::size_t>(hit)]) {
      for (const int index : ending_[static_cast<std::size_t>(hit)]) {
        auto& seen = seen_in_[static_cast<std::size_t>(index)];
        if (seen == line_number_) continue;
        seen = line_number_;
        found.push_back(index);
      }
    }
  }
}

}  // namespace spillway::planner
