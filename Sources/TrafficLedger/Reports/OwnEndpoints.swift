import TrafficLimits
import TrafficModel
import TrafficReport

/// Each running process's own share of the rows by route, limited for each process and user (``ReportLimits/ownRows``).
///
/// The parts of a process add up to all that the process reported. What exceeds the limit is a part, too: the rest, one
/// part for each role.
struct OwnEndpoints: Codable {
    /// A process that runs.
    struct Owner: Hashable {
        var process: ProcessIdentity
        var user: PayingUser
    }

    /// The place of a part. Valid until its process ends.
    struct Place: Codable {
        fileprivate let index: Int
    }

    /// The whole that a part belongs to.
    enum Whole: Hashable, Codable {
        /// The index of a row among the rows by route.
        case row(Int)
        case rest(EndpointRole)
    }

    struct Part: Codable {
        let whole: Whole
        private let role: EndpointRole
        private var requests: UInt64 = 0
        private var responses: UInt64 = 0
        private var failures: UInt64 = 0
        private var sent: UInt64 = 0
        private var received: UInt64 = 0
        private var quality = JoinQuality.exact

        fileprivate init(of whole: Whole, _ role: EndpointRole) {
            (self.whole, self.role) = (whole, role)
        }

        mutating func add(_ share: ExchangeShare) {
            if let request = share.request { self.add(request) }
            if let response = share.response { self.add(response) }
            if let outcome = share.outcome, ExchangeOutcome(outcome.ending).isFailure { self.failures += 1 }
        }

        private mutating func add(_ message: MessageShare) {
            if message.isRequest { self.requests += 1 } else { self.responses += 1 }
            if message.isRequest == (self.role == .client) {
                self.sent &+= message.bytes.message
            } else {
                self.received &+= message.bytes.message
            }
            self.quality = max(self.quality, message.quality)
        }

        func add(to usage: inout ProcessEndpoint) {
            usage.requests += self.requests
            usage.responses += self.responses
            usage.failures += self.failures
            usage.sent &+= self.sent
            usage.received &+= self.received
            usage.quality = max(usage.quality, self.quality)
        }
    }

    private struct Process: Codable {
        let user: PayingUser
        var places: [Whole: Place] = [:]
    }

    private var processes: [ProcessIdentity: Process] = [:]
    private var parts: [Part] = []
    /// Places of processes that have ended. New parts use them again.
    private var free: [Place] = []
    private var budget = Budget<ProcessIdentity>()

    /// The part of a row. Makes a new part if there is none.
    mutating func place(of row: Int, _ role: EndpointRole, for owner: Owner) -> Place {
        if let place = self.place(of: .row(row), of: owner.process) { return place }
        // A process with a rest gets no further rows: a new row would lack what the rest already has of it.
        if let place = self.place(of: .rest(role), of: owner.process) { return place }
        let hasRoom = self.budget.take(of: owner.process, owner.user, within: ReportLimits.ownRows)
        return self.add(Part(of: hasRoom ? .row(row) : .rest(role), role), of: owner)
    }

    private func place(of whole: Whole, of process: ProcessIdentity) -> Place? {
        self.processes[process]?.places[whole]
    }

    private mutating func add(_ part: Part, of owner: Owner) -> Place {
        let place = self.free.popLast() ?? Place(index: self.parts.count)
        if place.index == self.parts.count { self.parts.append(part) } else { self.parts[place.index] = part }
        self.processes[owner.process, default: Process(user: owner.user)].places[part.whole] = place
        return place
    }

    mutating func add(_ share: ExchangeShare, to place: Place) {
        self.parts[place.index].add(share)
    }

    /// - Returns: Whether the process had any part. If so, no ``Place`` of this process is valid any more.
    mutating func end(_ process: ProcessIdentity) -> Bool {
        guard let gone = self.processes.removeValue(forKey: process) else { return false }
        self.free += gone.places.values
        self.budget.add(-self.budget.held(by: process), of: process, gone.user)
        return true
    }

    func parts(of process: ProcessIdentity) -> [Part] {
        self.processes[process]?.places.values.map { self.parts[$0.index] } ?? []
    }
}
