import Foundation

// No test is about how long these waits take, because a machine can be very busy. They give up after `Program.patience`
// and 100 looks, when only a fault explains it: beside tests that compute, minutes may pass between two looks.

/// When to give up.
private struct Patience {
    private let end = ContinuousClock.now + Program.patience
    private var looks = 0

    mutating func isOver() -> Bool {
        self.looks += 1
        return self.looks >= 100 && ContinuousClock.now > self.end
    }
}

/// Looks until it sees what is wanted.
///
/// - Parameter pause: Between two looks.
/// - Returns: What it saw last: what is wanted, or something else if it gave up.
public func look<Seen>(
    every pause: Duration = .milliseconds(50),
    until isWanted: (Seen) throws -> Bool,
    isolation: isolated (any Actor)? = #isolation,
    _ see: () async throws -> Seen
) async throws -> Seen {
    var patience = Patience()
    while true {
        let seen = try await see()
        if try isWanted(seen) || patience.isOver() { return seen }
        try await Task.sleep(for: pause)
    }
}

/// Waits until something holds.
///
/// - Returns: `false`: it gave up.
public func eventually(
    every pause: Duration = .milliseconds(50),
    isolation: isolated (any Actor)? = #isolation,
    _ holds: () async throws -> Bool
) async throws -> Bool {
    try await look(every: pause, until: \.self, isolation: isolation, holds)
}

/// ``look(every:until:isolation:_:)`` for code that does not suspend.
public func blockingLook<Seen>(
    every pause: Duration = .milliseconds(10),
    until isWanted: (Seen) throws -> Bool,
    _ see: () throws -> Seen
) rethrows -> Seen {
    var patience = Patience()
    while true {
        let seen = try see()
        if try isWanted(seen) || patience.isOver() { return seen }
        Thread.sleep(forTimeInterval: pause / .seconds(1))
    }
}
