// A suspended coroutine: its frame, of a type that the compiler made, holds what is "kept".
#include <coroutine>

#include "loc_show.h"

struct Task {
	struct promise_type {
		Task get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_always initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
		}
	};
	std::coroutine_handle<promise_type> handle;
};

namespace my
{
Task count(int from)
{
	int kept = from;

	SHOW(kept);
	for (;;) {
		kept++;
		co_await std::suspend_always{};
	}
}
} // namespace my

void *frame;

int main()
{
	Task task = my::count(41);

	frame = task.handle.address();
	task.handle.resume();
	show_done();
	return 0;
}
