import Foundation
import FoundationNetworking
import TrafficKit
import TrafficKitURLSession

/// URLSession as a program of its own. libcurl reads the certificates that it trusts from a file below /etc, and no
/// option changes that. A separate process can have another file there.
///
/// The call is `trafficfetch CLIENT REPORT-SOCKET`. Standard input has lines of the form `METHOD URL BYTES-OF-BODY`. A
/// line may also have several requests, separated by commas, which run at once. The program prints each result as a
/// line of JSON. At the end of the input the program ends the session and waits until its connections are closed.
@main
@MainActor
enum Fetch {
    /// What sends the requests.
    nonisolated enum Client: String {
        case plain, wrapped, stopped, observed
    }

    nonisolated struct Result: Encodable {
        var status: Int?
        /// All fields but the time of day.
        var fields: [String: String]?
        var body: Data?
        var error: Int?
    }

    struct Usage: Error {}

    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let client = Client(rawValue: arguments[1]) else { throw Usage() }
        let monitor = TrafficMonitor()
        if client != .stopped { try monitor.start(.init(socketPath: arguments[2])) }
        let configuration = URLSessionConfiguration.ephemeral
        if client == .observed { configuration.observeTraffic(monitor: monitor) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        try await Self.use(Session(client, configuration, monitor)) { session in
            while let line = readLine() {
                for result in await session.fetch(try line.split(separator: ",").map { try Self.request($0) }) {
                    try FileHandle.standardOutput.write(contentsOf: encoder.encode(result) + [UInt8(ascii: "\n")])
                }
            }
        }
        while Self.hasConnections { try await Task.sleep(for: .milliseconds(5)) }
        monitor.stop()
    }

    /// A session closes its idle connections when the session is gone.
    private static func use(_ session: consuming Session, _ body: (Session) async throws -> Void) async throws {
        try await body(session)
        session.end()
    }

    private static func request(_ text: Substring) throws -> URLRequest {
        let words = text.split(separator: " ").map(String.init)
        guard words.count == 3, let url = URL(string: words[1]), let count = Int(words[2]) else { throw Usage() }
        var request = URLRequest(url: url)
        request.httpMethod = words[0]
        request.timeoutInterval = 600  // on a busy machine, its usual minute may pass
        if count > 0 {
            request.httpBody = Data(repeating: 7, count: count)
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        }
        return request
    }

    private static var hasConnections: Bool {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.contains { name in
            var address = sockaddr_in6()
            var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            let result = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(Int32(name) ?? -1, $0, &length) }
            }
            return result == 0 && [AF_INET, AF_INET6].contains(Int32(address.sin6_family))
        }
    }
}

struct Session: Sendable {
    private let plain: URLSession?
    private let wrapped: TrafficSession?

    init(_ client: Fetch.Client, _ configuration: URLSessionConfiguration, _ monitor: TrafficMonitor) {
        let isWrapped = client == .wrapped || client == .stopped
        self.plain = isWrapped ? nil : URLSession(configuration: configuration)
        self.wrapped = isWrapped ? TrafficSession(configuration: configuration, monitor: monitor) : nil
    }

    /// Runs all requests at once.
    func fetch(_ requests: [URLRequest]) async -> [Fetch.Result] {
        let tasks = requests.map { request in Task { await self.fetch(request) } }
        var results: [Fetch.Result] = []
        for task in tasks { results.append(await task.value) }
        return results
    }

    private func fetch(_ request: URLRequest) async -> Fetch.Result {
        do {
            let (data, response) = try await self.run(request)
            let http = response as? HTTPURLResponse
            let fields = http?.allHeaderFields.map { (String(describing: $0.key), String(describing: $0.value)) } ?? []
            return Fetch.Result(
                status: http?.statusCode,
                fields: Dictionary(fields) { first, _ in first }.filter { $0.key != "Date" },
                body: data
            )
        } catch {
            return Fetch.Result(error: (error as? URLError)?.code.rawValue)
        }
    }

    /// A PUT is sent as an upload, as apps do.
    private func run(_ request: URLRequest) async throws -> (Data, URLResponse) {
        let upload = request.httpMethod == "PUT" ? request.httpBody ?? Data() : nil
        var request = request
        if upload != nil { request.httpBody = nil }
        return switch (self.wrapped, self.plain, upload) {
        case (let session?, _, let body?): try await session.upload(for: request, from: body)
        case (let session?, _, nil): try await session.data(for: request)
        case (_, let session?, let body?): try await session.upload(for: request, from: body)
        default: try await (self.plain ?? .shared).data(for: request)
        }
    }

    func end() {
        self.plain?.finishTasksAndInvalidate()
        self.wrapped?.finishTasksAndInvalidate()
    }
}
