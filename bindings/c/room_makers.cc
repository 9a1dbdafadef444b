// SPDX-License-Identifier: Apache-2.0
// A function that was taken out lives as long as threads look at it.
#include "bindings/c/room_makers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tidepool/pool.h"

namespace tidepool::c_api {

thread_local int RoomMakers::depth_ = 0;

absl::StatusOr<std::size_t> RoomMakers::Add(std::optional<std::string> tag,
                                            tidepool_make_room function, void* data) {
  if (tag.has_value() && (tag->empty() || tag->size() > Pool::kMostTagBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tag of ", tag->size(), " bytes, expected 1 to ", Pool::kMostTagBytes));
  }
  auto maker = std::make_shared<Maker>();
  maker->tag = std::move(tag);
  maker->function = function;
  maker->data = data;
  const locks::MutexLock lock(&mutex_);
  maker->number = ++last_number_;
  makers_.push_back(std::move(maker));
  return last_number_;
}

absl::Status RoomMakers::Remove(std::size_t number) {
  const locks::MutexLock lock(&mutex_);
  const auto found = std::ranges::find(makers_, number, [](const auto& m) { return m->number; });
  if (found == makers_.end()) {
    return absl::NotFoundError(absl::StrCat("the pool calls no function of number ", number,
                                            ", expected one of tidepool_begin_make_room"));
  }
  const std::shared_ptr<Maker> maker = *found;
  makers_.erase(found);
  maker->is_removed = true;
  const auto is_other = [self = std::this_thread::get_id()](auto id) { return id != self; };
  while (std::ranges::any_of(maker->threads, is_other)) was_left_.Wait(&mutex_);
  return absl::OkStatus();
}

bool RoomMakers::MakeRoom(const Request& request) {
  const std::vector<std::shared_ptr<Maker>> makers = MakersFor(request.tag);
  const std::string tag(request.tag);
  const auto first = static_cast<std::size_t>(request.attempt - 1);
  for (std::size_t i = 0; i < makers.size(); ++i) {
    Maker& maker = *makers[(first + i) % makers.size()];
    if (!Enter(maker)) continue;
    ++depth_;
    const bool made = maker.function(tag.empty() ? nullptr : tag.c_str(), request.bytes,
                                     request.stream, request.attempt, maker.data) != 0;
    --depth_;
    Leave(maker);
    if (made) return true;
  }
  return false;
}

std::vector<std::shared_ptr<RoomMakers::Maker>> RoomMakers::MakersFor(std::string_view tag) {
  std::vector<std::shared_ptr<Maker>> concerned;
  const locks::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Maker>& maker : makers_) {
    if (!maker->tag.has_value() || *maker->tag == tag) concerned.push_back(maker);
  }
  return concerned;
}

bool RoomMakers::Enter(Maker& maker) {
  const std::thread::id self = std::this_thread::get_id();
  const locks::MutexLock lock(&mutex_);
  if (maker.is_removed || std::ranges::find(maker.threads, self) != maker.threads.end()) {
    return false;
  }
  maker.threads.push_back(self);
  return true;
}

void RoomMakers::Leave(Maker& maker) {
  const locks::MutexLock lock(&mutex_);
  std::erase(maker.threads, std::this_thread::get_id());
  was_left_.SignalAll();
}

}  // namespace tidepool::c_api
