import AsyncHTTPClient
import FoundationEssentials
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import TrafficExport
import TrafficModel

/// A server that wants the changes of alerts, each in a POST.
struct Webhook: Sendable {
    /// What the server's answer means for the change.
    enum Verdict: Equatable {
        case accepted
        /// It will not take this change, however often it is asked.
        case refused(String)
        /// It may take it later, at the earliest after so many seconds.
        case later(String, afterSeconds: Double)
    }

    /// For a whole request, from the name of the host to the answer.
    private static let timeout = TimeAmount.seconds(10)
    /// A server can't make us wait longer.
    private static let longestWait = 3_600.0

    private let url: String
    private let token: String?
    private let client: HTTPClient
    /// For messages. Paths and queries of such URLs are often secrets.
    let name: String

    /// - Parameter token: Of the header `Authorization: Bearer`.
    init(_ url: WebhookURL, token: String?) {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        self.client = HTTPClient(
            eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup.singleton),
            configuration: configuration
        )
        (self.url, self.name, self.token) = (url.text, url.name, token)
    }

    func close() async { try? await self.client.shutdown() }

    func post(_ notice: AlertNotice) async -> Verdict {
        var request = HTTPClientRequest(url: self.url)
        request.method = .POST
        request.headers = [
            "content-type": "application/json", "user-agent": "trafficctl/\(TrafficVersion.current)",
            "idempotency-key": notice.position.description,
        ]
        if let token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
        request.body = .bytes(ByteBuffer(bytes: notice.json()))
        do {
            let response = try await self.client.execute(request, timeout: Self.timeout)
            // The body says nothing to us. Nobody reads it, so the connection ends here.
            return Self.verdict(
                Int(response.status.code),
                retryAfter: response.headers.first(name: "retry-after"),
                now: Int64(time(nil))
            )
        } catch let error as HTTPClientError where error == .deadlineExceeded {
            return .later("no answer within 10 s", afterSeconds: 0)
        } catch {
            return .later("\(error)", afterSeconds: 0)
        }
    }

    /// - Parameters:
    ///   - retryAfter: Seconds or a date (RFC 9110, 10.2.3).
    ///   - now: Seconds since 1970.
    static func verdict(_ status: Int, retryAfter: String?, now: Int64) -> Verdict {
        switch status {
        case 200..<300: .accepted
        case 408, 425, 429, 500..<600:
            .later("status \(status)", afterSeconds: Self.wait(retryAfter, now: now))
        // Also a redirect: whoever can answer in the server's place must not choose where alerts go.
        default: .refused("status \(status)")
        }
    }

    private static func wait(_ retryAfter: String?, now: Int64) -> Double {
        guard let text = retryAfter else { return 0 }
        if let seconds = UInt64(text) { return min(Double(seconds), Self.longestWait) }
        guard let date = Self.date(text) else { return 0 }
        return min(max(0, Double(date - now)), Self.longestWait)
    }

    /// A date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7), the only form that servers send today.
    ///
    /// - Returns: Seconds since 1970.
    private static func date(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = Self.months.firstIndex(of: String(words[2])) else {
            return nil
        }
        let numbers = ([words[1], words[3]] + words[4].split(separator: ":")).compactMap { Int32($0) }
        guard numbers.count == 5, numbers.allSatisfy({ 0...9_999 ~= $0 }) else { return nil }
        var date = tm()
        (date.tm_mday, date.tm_mon, date.tm_year) = (numbers[0], Int32(month), numbers[1] - 1_900)
        (date.tm_hour, date.tm_min, date.tm_sec) = (numbers[2], numbers[3], numbers[4])
        return unsafe Int64(timegm(&date))
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}

/// The address of a webhook.
struct WebhookURL {
    let text: String
    /// Without path and query.
    let name: String

    /// - Throws: A sentence that says what is wrong.
    init(_ text: String) throws(Failure) {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host(), !host.isEmpty,
            ["http", "https"].contains(scheme), text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            // Not the text itself: it may be a secret.
            throw .badWebhook("the URL must be such as https://host.example/path")
        }
        guard url.user() == nil, url.password() == nil else {
            throw .badWebhook("the URL must have no user and password: put a token in a file, for --token-file")
        }
        guard url.fragment == nil else { throw .badWebhook("the URL must have no #fragment") }
        self.text = text
        self.name = "\(scheme)://\(host)" + (url.port.map { ":\($0)" } ?? "")
    }
}
