import Testing

@testable import TrafficLimits
@testable import TrafficModel

@Suite("Allowances")
struct ReportLimitsTests {
    @Test("a process, a user and all users together get their limit, and no more")
    func edges() {
        var budget = Budget<Int32>()
        let allowance = Allowance(process: 3, user: 5, all: 7)
        func take(_ amount: Int, _ process: Int32, _ user: UInt32) -> Bool {
            budget.take(amount, of: process, PayingUser(user), within: allowance)
        }
        // Exactly the limit, and one beyond, of a process …
        #expect(take(1, 1, 10) && take(2, 1, 10))
        #expect(!take(1, 1, 10))
        // … of its user …
        #expect(!take(3, 2, 10))
        #expect(take(2, 2, 10))
        #expect(!take(1, 3, 10))
        // … and of all: another user has what is left.
        #expect(!take(3, 4, 11))
        #expect(take(2, 4, 11))
        #expect(!take(1, 5, 12))
        #expect(budget.used == 7)
        // Places that are given back are free for others, within their own limits.
        budget.add(-2, of: 2, PayingUser(10))
        #expect(!take(1, 1, 10))
        #expect(take(1, 5, 12) && take(1, 3, 10))
        budget.reset()
        #expect(budget.used == 0)
        #expect(take(3, 1, 10))
    }

    @Test(
        "three payers leave room for a fourth, and a process's limit is at most its user's"
    )
    func shares() {
        for allowance in [
            ReportLimits.waitingBytes, ReportLimits.waitingRecords, ReportLimits.openExchanges,
            ReportLimits.endedExchanges, ReportLimits.claimedRanges, ReportLimits.lateRanges, ReportLimits.ownRows,
        ] {
            #expect(allowance.process <= allowance.user && 3 * allowance.user < allowance.all)
        }
        let rows = ReportLimits.Rows()
        #expect(rows.ofService < rows.ofUser && 4 * rows.ofUser < rows.all && 4 * rows.fineOfUser < rows.fine)
        #expect(4 * rows.servicesOfUser < rows.services)
    }
}
