import Synchronization
import TrafficCapture

/// The names of users, for filters. A directory service may answer slowly, so a name is asked for once. A user without one
/// is asked for again after a minute: the user may be new, or the service may not have answered.
final class UserNames: Sendable {
    private struct State {
        var names: [UInt32: String] = [:]
        /// Until when a user has none: nanoseconds of ``MonotonicClock``.
        var nameless: [UInt32: UInt64] = [:]
    }

    private let state = Mutex(State())
    /// Of each kind. A user with subordinate ids (subuid(5)) has 65,536.
    private static let most = 1 << 17
    private static let patience: UInt64 = 60_000_000_000

    /// May wait for a directory service.
    subscript(uid: UInt32) -> String? {
        let now = MonotonicClock.nanoseconds()
        let (name, isNameless) = self.state.withLock { ($0.names[uid], $0.nameless[uid].map { now < $0 } ?? false) }
        if name != nil || isNameless { return name }
        let answer = HostFacts.userName(uid)
        self.state.withLock { state in
            if state.names.count >= Self.most { state.names = [:] }
            if state.nameless.count >= Self.most { state.nameless = [:] }
            state.names[uid] = answer
            state.nameless[uid] = answer == nil ? now + Self.patience : nil
        }
        return answer
    }
}
