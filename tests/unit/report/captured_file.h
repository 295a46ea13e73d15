// A FILE whose content a test can read.
#pragma once

#include <cstdio>
#include <string>

namespace spillway::report {

class CapturedFile {
 public:
  CapturedFile() : file_(std::tmpfile()) {}
  ~CapturedFile() { std::fclose(file_); }
  CapturedFile(const CapturedFile&) = delete;
  CapturedFile& operator=(const CapturedFile&) = delete;

  [[nodiscard]] std::FILE* file() const { return file_; }
  [[nodiscard]] std::string text() const {
    std::fflush(file_);
    std::rewind(file_);
    std::string all;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
      all.push_back(static_cast<char>(c));
    }
    return all;
  }

 private:
  std::FILE* file_;
};

}  // namespace spillway::report
