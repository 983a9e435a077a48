import TrafficReport

/// An exchange of an HTTP/2 connection.
struct HTTP2Stream {
    /// The number of the stream (RFC 9113 section 5.1.1).
    var number: UInt32
    var exchange: UInt64
    var startedAt: UInt64
    /// The first exchange of its connection.
    var isFirst: Bool
    var name: Report.Name?
    /// The request, on a server with routes, until the exchange is named. `nil` if the app keeps the request out.
    var asked: MessageHead.Request?
    var request = HTTP2Message()
    var response = HTTP2Message()
    /// The head of the final response has come.
    var isAnswered = false
    /// Each message is told once, or counted as kept out.
    var isRequestTold = false
    var isResponseTold = false

    init(_ number: UInt32, exchange: UInt64, at time: UInt64, isFirst: Bool) {
        (self.number, self.exchange, self.startedAt, self.isFirst) = (number, exchange, time, isFirst)
    }

    @inline(__always)
    mutating func with<Result>(request isRequest: Bool, _ body: (inout HTTP2Message) -> Result) -> Result {
        isRequest ? body(&self.request) : body(&self.response)
    }

    /// - Parameter start: What is known of the connection's start.
    func outcome(_ ending: Report.Ending, at time: UInt64, _ start: ConnectionStart) -> Report.Exchange.Outcome {
        let phases = Report.Phases(
            startedAt: self.startedAt,
            requestEndedAt: self.request.endedAt,
            responseBeganAt: self.response.startedAt,
            responseEndedAt: self.response.endedAt ?? time
        )
        let status = self.response.head.status
        return .init(ending, status: status, from: self.startedAt, to: time, phases, self.isFirst ? start : nil)
    }
}

/// The open streams of a connection. The memory of an ended stream is used again, so a stream costs no allocation.
struct HTTP2Streams {
    /// The streams by their slots, also ended ones.
    var slots: [HTTP2Stream] = []
    private var free: [Int] = []
    /// The numbers of the open streams, rising, and their slots. Streams open in the order of their numbers.
    private var numbers: [UInt32] = []
    private var places: [Int] = []
    /// Frames of a stream often follow one another.
    private var last: (number: UInt32, slot: Int) = (0, 0)

    var count: Int { self.numbers.count }

    /// - Returns: `nil`: the stream is not open.
    @inline(__always)
    mutating func slot(of number: UInt32) -> Int? {
        // The connection itself is no stream, and `last` has this number where it has none.
        guard number != 0 else { return nil }
        if self.last.number == number { return self.last.slot }
        guard let index = self.index(of: number) else { return nil }
        self.last = (number, self.places[index])
        return self.last.slot
    }

    /// Opens a stream with a higher number than all before.
    mutating func open(_ stream: consuming HTTP2Stream) -> Int {
        let number = stream.number
        self.numbers.append(number)
        let slot = self.free.popLast() ?? self.slots.count
        self.places.append(slot)
        if slot == self.slots.count { self.slots.append(stream) } else { self.slots[slot] = stream }
        self.last = (number, slot)
        return slot
    }

    /// The slot's memory keeps its content until a stream opens there.
    mutating func close(_ number: UInt32) {
        guard let index = self.index(of: number) else { return }
        self.free.append(self.places[index])
        self.numbers.remove(at: index)
        self.places.remove(at: index)
        if self.last.number == number { self.last = (0, 0) }
    }

    /// The number of the open stream with the lowest number; `nil`: no stream is open.
    var lowest: UInt32? { self.numbers.first }

    private func index(of number: UInt32) -> Int? {
        var (low, high) = (0, self.numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if self.numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low < self.numbers.count && self.numbers[low] == number ? low : nil
    }
}
