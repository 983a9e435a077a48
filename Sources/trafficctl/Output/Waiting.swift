import TrafficView

/// Shows on a terminal how much of the waiting time has passed, and removes that line at the end.
///
/// - Parameters:
///   - what: What the program does meanwhile, such as `measuring`.
///   - seconds: How long it will take.
/// - Throws: What `body` throws.
func waiting<Result>(_ what: String, seconds: Double, while body: () async throws -> Result) async throws -> Result {
    guard StandardStream.error.isTerminal else { return try await body() }
    let clock = ContinuousClock()
    let start = clock.now
    let drawing = Task {
        var width = 0
        while !Task.isCancelled {
            let passed = min((clock.now - start) / .seconds(1), seconds)
            let line = "\(what): \(TimeText.seconds(passed)) of \(TimeText.seconds(seconds)) s"
            width = max(width, line.utf8.count)
            try? StandardStream.error.write("\r" + line)
            try? await Task.sleep(for: .milliseconds(100))
        }
        try? StandardStream.error.write("\r" + String(repeating: " ", count: width) + "\r")
    }
    let result: Swift.Result<Result, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    drawing.cancel()
    await drawing.value
    return try result.get()
}
