#include "planner/foreign/words.h"

#include <algorithm>
#include <map>

namespace spillway::planner {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A word, or one of the signs ( ) ; and the end of a line.
struct Token {
  std::string text;
  bool sign = false;
};

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    finish();
    return std::move(tokens_);
  }

 private:
  void finish() {
    if (in_word_) tokens_.push_back({word_, false});
    word_.clear();
    in_word_ = false;
  }

  void add(char c) {
    word_ += c;
    in_word_ = true;
  }

  void quoted(char quote) {
    in_word_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && quote == '"' && at_ + 1 < text_.size()) {
        if (text_[++at_] == '\n') continue;
      }
      word_ += text_[at_] == '\n' ? ' ' : text_[at_];
    }
    ++at_;
  }

  void step() {
    const char c = text_[at_];
    if (c == '\'' || c == '"') return quoted(c);
    if (c == '\\' && at_ + 1 < text_.size()) {
      ++at_;
      if (text_[at_] == '\r') ++at_;
      if (at_ < text_.size() && text_[at_] != '\n') add(text_[at_]);
      ++at_;
      return;
    }
    if (c == '#' && !in_word_) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      return;
    }
    ++at_;
    if (c == ' ' || c == '\t' || c == '\r') return finish();
    const bool opens_expansion = c == '(' && !word_.empty() && word_.back() == '$';
    if (c == '\n' || c == ';' || ((c == '(' || c == ')') && !opens_expansion)) {
      finish();
      tokens_.push_back({std::string(1, c), true});
      return;
    }
    add(c);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  std::vector<Token> tokens_;
};

using Variables = std::map<std::string, std::vector<std::string>>;

/// The variable that begins at text[at] == '$'; its end in `end`. "${A}", "$A", "${A[@]}",
/// "${A:-default}".
std::string variable_at(const std::string& text, std::size_t at, std::size_t& end,
                        std::string& fallback) {
  const bool braces = at + 1 < text.size() && text[at + 1] == '{';
  const std::size_t start = at + (braces ? 2 : 1);
  end = start;
  while (end < text.size() && is_name(text[end])) ++end;
  const std::string name = text.substr(start, end - start);
  if (!braces) return name;
  const std::size_t close = text.find('}', end);
  if (close == std::string::npos) return {};
  const std::string rest = text.substr(end, close - end);
  if (rest.starts_with(":-")) fallback = rest.substr(2);
  end = close + 1;
  return name;
}

/// One word with its variables put in; an array gives several words.
std::vector<std::string> expanded(const std::string& word, const Variables& variables) {
  std::vector<std::string> out = {""};
  for (std::size_t at = 0; at < word.size();) {
    if (word[at] != '$') {
      out.back() += word[at++];
      continue;
    }
    std::size_t end = at;
    std::string fallback;
    const auto name = variable_at(word, at, end, fallback);
    const auto found = variables.find(name);
    if (found != variables.end()) {
      for (std::size_t i = 0; i < found->second.size(); ++i) {
        if (i > 0) out.emplace_back();
        out.back() += found->second[i];
      }
    } else if (!fallback.empty()) {
      out.back() += fallback;
    } else {
      out.back() += word.substr(at, std::max<std::size_t>(end - at, 1));
    }
    at = std::max(end, at + 1);
  }
  return out;
}

std::vector<std::string> split_at_blanks(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const auto& word : words) {
    std::size_t start = word.find_first_not_of(' ');
    while (start != std::string::npos) {
      const std::size_t end = std::min(word.find(' ', start), word.size());
      out.push_back(word.substr(start, end - start));
      start = word.find_first_not_of(' ', end);
    }
  }
  return out;
}

/// Length of "NAME=" or "NAME+=" at the beginning of a word; 0: it is no assignment.
std::size_t assignment(const std::string& word) {
  std::size_t at = 0;
  while (at < word.size() && is_name(word[at])) ++at;
  if (at == 0 || (word[0] >= '0' && word[0] <= '9')) return 0;
  if (word.compare(at, 2, "+=") == 0) return at + 2;
  return at < word.size() && word[at] == '=' ? at + 1 : 0;
}

}  // namespace

std::vector<std::string> shell_words(std::string_view text) {
  const auto tokens = Tokenizer(text).run();
  Variables variables;
  std::vector<std::string> out;
  const auto put = [&](std::vector<std::string>& target, const std::string& word) {
    for (auto& piece : split_at_blanks(expanded(word, variables))) target.push_back(piece);
  };
  bool first = true;  // of a command
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].sign) {
      first = true;
      continue;
    }
    const auto& word = tokens[i].text;
    if (first && word == "export") continue;
    const std::size_t value_from = first ? assignment(word) : 0;
    if (value_from == 0) {
      first = false;
      put(out, word);
      continue;
    }
    const bool appends = word[value_from - 2] == '+';
    const std::string name = word.substr(0, value_from - (appends ? 2 : 1));
    std::vector<std::string> value;
    if (value_from == word.size() && i + 1 < tokens.size() && tokens[i + 1].text == "(") {
      for (i += 2; i < tokens.size() && !(tokens[i].sign && tokens[i].text == ")"); ++i) {
        if (!tokens[i].sign) put(value, tokens[i].text);
      }
    } else {
      put(value, word.substr(value_from));
    }
    auto& slot = variables[name];
    if (!appends) slot.clear();
    slot.insert(slot.end(), value.begin(), value.end());
  }
  return out;
}

}  // namespace spillway::planner
