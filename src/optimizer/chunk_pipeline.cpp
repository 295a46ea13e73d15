#include "optimizer/chunk_pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "spillway/optimizer/host_threads.h"

namespace spillway::optimizer {
namespace {

using device::Direction;
using device::Event;
using device::Space;

Bytes total_states(const std::vector<StateBlock>& chunks) {
  Bytes total;
  for (const StateBlock& chunk : chunks) total += chunk.planes.total;
  return total;
}

std::int64_t staged_bytes(const StateBlock& chunk) {
  return chunk.plane_elements * staged_bytes_per_element(chunk.format);
}

std::size_t max_segments(const std::vector<StateBlock>& chunks) {
  std::size_t result = 0;
  for (const StateBlock& chunk : chunks) result = std::max(result, chunk.segments.size());
  return result;
}

/// A segment is one item of an update, or a gradient and a parameter to be gathered.
constexpr std::size_t kTableItemBytes =
    std::max(sizeof(kernels::UpdateItem), 2 * sizeof(kernels::MoveItem));

/// Pageable memory, for those who switch page-locking off.
device::Buffer pageable(Bytes bytes) {
  constexpr std::align_val_t kAlignment{4096};
  auto* const data = static_cast<std::byte*>(::operator new(bytes.size(), kAlignment));
  return {data, bytes, Space::kHost, false, [data] { ::operator delete(data, kAlignment); }};
}

device::Buffer host_memory(device::Device& device, Bytes bytes, bool pinned,
                           std::string_view purpose) {
  return pinned ? device.allocate_host(bytes, purpose) : pageable(bytes);
}

template <typename T>
T take_front(std::deque<T>& queue) {
  T front = std::move(queue.front());
  queue.pop_front();
  return front;
}

int take_back(std::vector<int>& indices) {
  const int index = indices.back();
  indices.pop_back();
  return index;
}

}  // namespace

ChunkPipeline::ChunkPipeline(device::Device& device, DeviceKernels& device_kernels,
                             const kernels::HostKernels& host_kernels,
                             const ParameterSet& parameters, const OptimizerOptions& options,
                             std::vector<StateBlock> chunks)
    : device_(device),
      device_kernels_(device_kernels),
      host_kernels_(host_kernels),
      parameters_(parameters),
      options_(options),
      blocks_(std::move(chunks)),
      chunks_(blocks_.size()),
      balancer_(options.update),
      num_published_(std::ssize(blocks_)),
      in_(device, Direction::kHostToDevice, "states in"),
      out_(device, Direction::kDeviceToHost, "states out"),
      update_stream_(device.create_stream("chunk update")) {
  if (options.update != OffloadUpdate::kStream)
    pool_ = std::make_unique<HostPool>(
        choose_host_threads(read_cpu_budget(), options.host_threads).count);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int chunk = static_cast<int>(i);
    all_chunks_.push_back(chunk);
    for (const Segment& segment : blocks_[i].segments)
      for (const int layer : parameters.layers(segment.parameter)) {
        std::vector<int>& of_layer = chunks_of_layer_[layer];
        if (of_layer.empty() || of_layer.back() != chunk) of_layer.push_back(chunk);
      }
  }
  reserve_states();
  allocate_staging();
  feeder_ = std::jthread([this] { feed(); });
  (void)pthread_setname_np(feeder_.native_handle(), "chunk feeder");
}

void ChunkPipeline::reserve_states() {
  arena_.emplace(host_memory(device_, total_states(blocks_), options_.pin_cpu_params,
                             "offloaded optimizer states"),
                 "offloaded optimizer states");
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    chunks_[i].states = arena_->reserve(blocks_[i].planes.total);
  HostPool zeroing(choose_host_threads(read_cpu_budget(), options_.host_threads).count);
  zeroing.parallel_for(std::ssize(chunks_), 1, [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::ranges::fill(chunks_[static_cast<std::size_t>(i)].states, std::byte{0});
  });
}

void ChunkPipeline::allocate_staging() {
  Bytes slot_bytes;
  Bytes stage_bytes;
  for (const StateBlock& chunk : blocks_) {
    stage_bytes = std::max(stage_bytes, Bytes(round_up(staged_bytes(chunk), 256)));
    slot_bytes = std::max({slot_bytes, stage_bytes, chunk.planes.total});
  }
  const int num = std::min<int>(options_.ring_slots, static_cast<int>(blocks_.size()));
  const std::size_t most = max_segments(blocks_);
  slots_.emplace(device_, Bytes(round_up(slot_bytes.value, 256)), num);
  tables_.emplace(device_, blocks_, kTableItemBytes);
  if (!pool_) return;
  host_staging_ =
      host_memory(device_, stage_bytes * num, options_.pin_cpu_grads, "optimizer gradient staging");
  for (int i = 0; i < num; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * stage_bytes.size();
    stages_.emplace_back(host_staging_.span().subspan(begin, stage_bytes.size()), most,
                         static_cast<bool>(options_.host_update));
    free_stages_.push_back(i);
  }
}

ChunkPipeline::~ChunkPipeline() {
  {
    std::unique_lock lock(mutex_);
    drop_requested_ = true;
    wake_.notify_one();
    changed_.wait(lock, [this] { return at_rest_ || error_; });
    stopping_ = true;
    wake_.notify_one();
  }
  feeder_.join();
  pool_.reset();  // after a failure work may still be under way on memory that is about to go
  for (device::Stream* stream : {&in_.stream(), &update_stream_, &out_.stream()}) {
    try {
      stream->synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): callers were told already
    }
  }
}

// ---- Callers ------------------------------------------------------------------------------------

void ChunkPipeline::throw_if_failed() const {
  if (error_) std::rethrow_exception(error_);
}

Bytes ChunkPipeline::memory_of_others() const {
  for (;;) {  // the feeder may give memory up in between
    const Bytes extra = slots_->extra_bytes();
    const Bytes others = device_.memory().allocated - extra;
    if (slots_->extra_bytes() == extra) return others;
  }
}

void ChunkPipeline::begin_prefetch(std::optional<Bytes> most, const device::Stream& compute) {
  const PrefetchBudget budget = room_.begin(most, memory_of_others());
  const std::scoped_lock lock(mutex_);
  throw_if_failed();
  requested_ = Prefetch{budget, compute};
  drop_requested_ = false;
  at_rest_ = false;
  wake_.notify_one();
}

void ChunkPipeline::leave_room() {
  if (!room_.observe(memory_of_others())) return;
  while (!room_.is_enough(memory_of_others(), slots_->extra_bytes())) {
    std::unique_lock lock(mutex_);
    throw_if_failed();
    changed_.wait_for(lock, kIdlePollInterval);
  }
}

void ChunkPipeline::post(const Step& step) {
  room_.end();
  const std::scoped_lock lock(mutex_);
  throw_if_failed();
  for (Chunk& chunk : chunks_) chunk.publication = {.published = false};
  posted_ = step;
  drop_requested_ = false;
  at_rest_ = false;
  wake_.notify_one();
}

void ChunkPipeline::order_after(device::Stream& stream, std::span<const int> chunks) {
  Publication last_update;
  Publication last_copy;
  {
    std::unique_lock lock(mutex_);
    for (const int index : chunks) {
      const Publication& publication = chunks_[static_cast<std::size_t>(index)].publication;
      changed_.wait(lock, [&] { return publication.published || error_; });
      throw_if_failed();
      if (publication.by == Publisher::kNone) continue;  // nothing was changed
      Publication& last = publication.by == Publisher::kInLane ? last_copy : last_update;
      if (publication.number >= last.number) last = publication;
    }
  }
  stream.wait(last_update.event);
  stream.wait(last_copy.event);
}

void ChunkPipeline::order_after_layer(device::Stream& stream, int layer) {
  const auto found = chunks_of_layer_.find(layer);
  if (found != chunks_of_layer_.end()) order_after(stream, found->second);
}

void ChunkPipeline::order_after_all(device::Stream& stream) { order_after(stream, all_chunks_); }

void ChunkPipeline::wait_until_idle() {
  std::unique_lock lock(mutex_);
  drop_requested_ = true;
  wake_.notify_one();
  changed_.wait(lock, [this] { return at_rest_ || error_; });
  throw_if_failed();
}

double ChunkPipeline::host_share() {
  const std::scoped_lock lock(mutex_);
  return host_share_;
}

Bytes ChunkPipeline::device_staging() const {
  return slots_->ring_bytes() + tables_->device_bytes();
}

Bytes ChunkPipeline::host_staging() const { return host_staging_.bytes() + tables_->host_bytes(); }

// ---- The feeder ---------------------------------------------------------------------------------

void ChunkPipeline::feed() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || (!error_ && !at_rest_); });
    if (stopping_) return;
    Orders orders = take_orders();
    lock.unlock();
    bool progressed = false;
    try {
      if (orders.prefetch) take_prefetch(*orders.prefetch);
      if (orders.drop) drop_prefetched();
      if (orders.step) take_step(*orders.step);
      progressed = advance();
    } catch (...) {
      fail(std::current_exception());
    }
    lock.lock();
    if (!posted_ && !requested_ && is_at_rest()) {
      at_rest_ = true;
      changed_.notify_all();
    } else if (!progressed) {
      const bool under_way = !in_.is_idle() || !out_.is_idle() || !prefetch_;
      wake_.wait_for(lock, under_way ? kPollInterval : kIdlePollInterval);
    }
  }
}

/// What callers asked for; the next step, or a prefetch for it, only once the last is published.
ChunkPipeline::Orders ChunkPipeline::take_orders() {
  Orders orders;
  if (num_published_ == std::ssize(blocks_)) {
    orders.prefetch = std::exchange(requested_, std::nullopt);
    orders.step = std::exchange(posted_, std::nullopt);
    orders.drop = std::exchange(drop_requested_, false);
  }
  return orders;
}

void ChunkPipeline::fail(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  error_ = std::move(error);
  changed_.notify_all();
}

bool ChunkPipeline::is_at_rest() const {
  for (const Queue* queue : {&waiting_to_stream_, &fetched_, &updated_, &written_,
                             &waiting_for_host_, &gathered_, &staged_, &computed_, &returned_})
    if (!queue->empty()) return false;
  return true;
}

/// What frees places comes first; of two that want the same lane, the one that others wait for.
bool ChunkPipeline::advance() {
  bool progressed = retire_written();
  progressed |= retire_returned();
  progressed |= return_parameters();
  progressed |= update_on_host();
  progressed |= send_gathered();
  progressed |= fetch_gradients();
  progressed |= write_states_back();
  progressed |= update_on_device();
  progressed |= fetch_states();
  if (step_ && !ready_at_ && step_->ready.done()) ready_at_ = std::chrono::steady_clock::now();
  if (is_at_rest()) observe_step();
  return progressed;
}

void ChunkPipeline::take_prefetch(const Prefetch& prefetch) {
  const bool is_new = !prefetch_;
  prefetch_ = prefetch;
  if (is_new) assign();
}

/// Back to where nothing was prefetched: the states on the device are copies of the host's.
void ChunkPipeline::drop_prefetched() {
  if (!prefetch_) return;
  prefetch_.reset();
  waiting_to_stream_.clear();
  waiting_for_host_.clear();
  for (Load& load : std::exchange(fetched_, {})) drop_load(load);
}

/// It leaves once the copy that brought its states is done.
void ChunkPipeline::drop_load(Load& load) { written_.push_back(std::move(load)); }

void ChunkPipeline::take_step(const Step& step) {
  // States still on their way out delay this step: they have taken until now.
  if (timing_ && ready_at_ && !written_.empty()) timing_->stream_seconds = seconds_since_ready();
  observe_step();
  step_ = step;
  num_published_ = 0;
  ready_at_.reset();
  if (!prefetch_) assign();
  prefetch_.reset();
  pass_over_chunks_without_gradient();
  timing_ = count_elements();
}

void ChunkPipeline::pass_over_chunks_without_gradient() {
  const auto pass_over = [this](Queue& queue, bool is_fetched) {
    for (Load& load : std::exchange(queue, {})) {
      if (has_gradient(load.chunk)) {
        queue.push_back(std::move(load));
        continue;
      }
      publish(load.chunk, Publisher::kNone, Event());
      if (is_fetched) drop_load(load);
    }
  };
  pass_over(waiting_to_stream_, false);
  pass_over(waiting_for_host_, false);
  pass_over(fetched_, true);
}

StepTiming ChunkPipeline::count_elements() const {
  StepTiming timing;
  const auto count = [this](const Queue& queue, std::int64_t& total) {
    for (const Load& load : queue) total += block(load.chunk).num_elements;
  };
  count(waiting_for_host_, timing.host_elements);
  count(waiting_to_stream_, timing.streamed_elements);
  count(fetched_, timing.streamed_elements);
  return timing;
}

double ChunkPipeline::seconds_since_ready() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - *ready_at_).count();
}

void ChunkPipeline::observe_step() {
  if (!timing_) return;
  balancer_.observe(*timing_);
  const auto host = static_cast<double>(timing_->host_elements);
  const auto total = host + static_cast<double>(timing_->streamed_elements);
  timing_.reset();
  if (total == 0.0) return;
  const std::scoped_lock lock(mutex_);
  host_share_ = host / total;
}

bool ChunkPipeline::has_gradient(int chunk) const {
  return std::ranges::any_of(block(chunk).segments, [this](const Segment& segment) {
    return step_->gradients[static_cast<std::size_t>(segment.parameter)].data != nullptr;
  });
}

/// Spreads the host's share evenly over the chunks, so that both ways work on neighbours and layers
/// become complete in their order.
void ChunkPipeline::assign() {
  const double share = balancer_.host_share();
  double owed_to_host = 0.0;
  for (const int index : all_chunks_) {
    const auto size = static_cast<double>(block(index).num_elements);
    owed_to_host += share * size;
    Load load{.chunk = index};
    if (2.0 * owed_to_host >= size) {
      owed_to_host -= size;
      waiting_for_host_.push_back(std::move(load));
    } else {
      waiting_to_stream_.push_back(std::move(load));
    }
  }
}

void ChunkPipeline::publish(int chunk, Publisher by, Event event) {
  ++num_published_;
  const std::scoped_lock lock(mutex_);
  chunks_[static_cast<std::size_t>(chunk)].publication = {
      .published = true, .by = by, .number = num_published_, .event = std::move(event)};
  changed_.notify_all();
}

/// The chunk's states are complete; what it occupied is free.
void ChunkPipeline::finish(Load& load) {
  chunks_[static_cast<std::size_t>(load.chunk)].busy = false;
  if (load.slot != DeviceSlots::kNone) slots_->give_back(load.slot);
  if (load.stage >= 0) free_stages_.push_back(load.stage);
}

// ---- Streamed: states in, update, states out ----------------------------------------------------

int ChunkPipeline::take_slot() {
  if (const int slot = slots_->take(); slot != DeviceSlots::kNone) return slot;
  const auto now = std::chrono::steady_clock::now();
  if (!prefetch_ || now < next_memory_check_) return DeviceSlots::kNone;
  if (!prefetch_->budget.allows(slots_->slot_bytes(), slots_->extra_bytes(), memory_of_others())) {
    next_memory_check_ = now + kIdlePollInterval;  // asking costs the framework's allocator a lock
    return DeviceSlots::kNone;
  }
  const int slot = slots_->take_extra();
  // The host gave the memory up, but work that uses it may still be queued.
  if (slot != DeviceSlots::kNone) in_.stream().wait(prefetch_->compute.record());
  return slot;
}

bool ChunkPipeline::fetch_states() {
  bool progressed = false;
  while (!waiting_to_stream_.empty() && in_.has_room()) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(waiting_to_stream_.front().chunk)];
    if (chunk.busy) break;
    const int slot = take_slot();
    if (slot == DeviceSlots::kNone) break;
    Load load = take_front(waiting_to_stream_);
    chunk.busy = true;
    load.slot = slot;
    const Copy copy{slots_->memory(slot).first(chunk.states.size()), chunk.states};
    load.event = in_.send({&copy, 1});
    fetched_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::update_on_device() {
  if (prefetch_) return false;  // what is fetched is for the next step
  bool progressed = false;
  while (!fetched_.empty()) {
    Load load = take_front(fetched_);
    const StateBlock& states = block(load.chunk);
    const auto items =
        array_at<kernels::UpdateItem>(tables_->write(load.chunk), Bytes(), states.segments.size());
    Launches launches =
        make_items(states, parameters_, step_->gradients, slots_->memory(load.slot).data(), items);
    number_pieces(device_kernels_, launches, items);
    update_stream_.wait(load.event);
    update_stream_.wait(step_->ready);
    const std::byte* const table = tables_->publish(load.chunk, update_stream_);
    enqueue(device_kernels_, launches, reinterpret_cast<const kernels::UpdateItem*>(table),
            step_->device_scalars, update_stream_);
    load.event = update_stream_.record();
    publish(load.chunk, Publisher::kUpdateStream, load.event);
    updated_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::write_states_back() {
  bool progressed = false;
  while (!updated_.empty() && updated_.front().event.done() && out_.has_room()) {
    Load load = take_front(updated_);
    const std::span<std::byte> states = chunks_[static_cast<std::size_t>(load.chunk)].states;
    const Copy copy{states, slots_->memory(load.slot).first(states.size())};
    load.event = out_.send({&copy, 1});
    written_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::retire_written() {
  bool progressed = false;
  while (!written_.empty() && written_.front().event.done()) {
    Load load = take_front(written_);
    finish(load);
    if (ready_at_ && timing_->streamed_elements > 0)
      timing_->stream_seconds = seconds_since_ready();
    progressed = true;
  }
  return progressed;
}

// ---- Host: gradients out, update, parameters in -------------------------------------------------

bool ChunkPipeline::fetch_gradients() {
  bool progressed = false;
  if (prefetch_) return false;  // host updates start with the step
  while (!waiting_for_host_.empty() && !free_stages_.empty() && step_->ready.done()) {
    const int index = waiting_for_host_.front().chunk;
    Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
    const bool packed = block(index).segments.size() > kMostDirectItems;
    if (chunk.busy || (packed ? !slots_->has_free() : !out_.has_room())) break;
    Load load = take_front(waiting_for_host_);
    chunk.busy = true;
    load.stage = take_back(free_stages_);
    HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
    stage.prepare(block(index), parameters_, step_->gradients, chunk.states.data());
    if (packed) {
      gather(load);
      gathered_.push_back(std::move(load));
    } else {
      load.event = out_.send(stage.direct_inputs());
      staged_.push_back(std::move(load));
    }
    progressed = true;
  }
  return progressed;
}

void ChunkPipeline::gather(Load& load) {
  load.slot = slots_->take();
  HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
  const auto items =
      array_at<kernels::MoveItem>(tables_->write(load.chunk), Bytes(), 2 * stage.num_items());
  const std::int64_t num_items = stage.fill_gather(slots_->memory(load.slot), items);
  move(load, items.first(static_cast<std::size_t>(num_items)));
}

void ChunkPipeline::scatter(Load& load) {
  HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
  const auto items =
      array_at<kernels::MoveItem>(tables_->write(load.chunk), Bytes(), stage.num_items());
  stage.fill_scatter(slots_->memory(load.slot), items);
  update_stream_.wait(load.event);
  move(load, items);
}

/// `items` are the front of the chunk's table.
void ChunkPipeline::move(Load& load, std::span<kernels::MoveItem> items) {
  const std::int64_t num_pieces = device_kernels_.number_pieces(items);
  const std::byte* const table = tables_->publish(load.chunk, update_stream_);
  device_kernels_.move(reinterpret_cast<const kernels::MoveItem*>(table), std::ssize(items),
                       num_pieces, update_stream_);
  load.event = update_stream_.record();
}

bool ChunkPipeline::send_gathered() {
  bool progressed = false;
  while (!gathered_.empty() && gathered_.front().event.done() && out_.has_room()) {
    Load load = take_front(gathered_);
    HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
    load.event = out_.send(stage.packed_inputs(slots_->memory(load.slot)));
    staged_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::update_on_host() {
  bool progressed = false;
  while (!staged_.empty() && staged_.front().event.done() && step_->host.known.done()) {
    Load load = take_front(staged_);
    if (step_->host.outcome->skipped != 0) {
      publish(load.chunk, Publisher::kNone, Event());
      finish(load);
    } else {
      HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
      load.job = stage.submit(*pool_, host_kernels_, step_->host, options_.host_update);
      computed_.push_back(std::move(load));
    }
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::return_parameters() {
  bool progressed = false;
  while (!computed_.empty() && computed_.front().job->done() && in_.has_room()) {
    Load load = take_front(computed_);
    std::exchange(load.job, std::nullopt)->wait();  // throws what the update threw
    HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
    if (load.slot < 0) {
      load.event = in_.send(stage.direct_outputs());
      publish(load.chunk, Publisher::kInLane, load.event);
    } else {
      load.event = in_.send(stage.packed_outputs(slots_->memory(load.slot)));
      scatter(load);
      publish(load.chunk, Publisher::kUpdateStream, load.event);
    }
    returned_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

/// The parameters leave from the stage, so it is free only once they have arrived.
bool ChunkPipeline::retire_returned() {
  bool progressed = false;
  while (!returned_.empty() && returned_.front().event.done()) {
    Load load = take_front(returned_);
    finish(load);
    if (ready_at_ && timing_->host_elements > 0) timing_->host_seconds = seconds_since_ready();
    progressed = true;
  }
  return progressed;
}

}  // namespace spillway::optimizer
